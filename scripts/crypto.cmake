# How BoringSSL (which `quic-quiche` uses) and AWS-LC (which everything else that encrypts uses) are compiled:
# read by CMake through $CMAKE_TOOLCHAIN_FILE, which the Makefile sets. Most of the time goes into reading the
# same headers for hundreds of small files, so several files are compiled as one; with that, and without
# debugging information, it takes a third. Without this file everything builds all the same.
set(CMAKE_UNITY_BUILD ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
# -w: their own lists of warnings are made for one file at a time.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g0 -w -DNDEBUG" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g0 -w -DNDEBUG" CACHE STRING "")

# Has files of a directory compiled alone: those with names of their own that another file has, too.
function(compile_alone directory)
  file(GLOB files ${ARGN})
  set_source_files_properties(${files} DIRECTORY ${directory} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# Both have a directory `crypto`, whose list of sources is known when the project has been read.
if(EXISTS ${CMAKE_SOURCE_DIR}/aws-lc)
  # AWS-LC
  set(c ${CMAKE_SOURCE_DIR}/aws-lc/crypto)
  cmake_language(DEFER CALL compile_alone ${c}
    ${c}/bio/dgram.c
    ${c}/cipher_extra/e_rc2.c
    ${c}/decrepit/obj/obj_decrepit.c
    ${c}/dsa/dsa_asn1.c
    ${c}/ecdsa_extra/ecdsa_asn1.c
    ${c}/evp_extra/evp_asn1.c
    ${c}/ocsp/*.c
    ${c}/pkcs8/pkcs8_x509.c
    ${c}/poly1305/poly1305_vec.c
    ${c}/rand_extra/urandom.c
    ${c}/rsa_extra/*.c
    ${c}/trust_token/*.c
    ${c}/ube/fork_ube_detect.c
    ${c}/x509/v3_pmaps.c
    ${c}/x509/v3_utl.c
    ${c}/x509/x509_lu.c)
elseif(EXISTS ${CMAKE_SOURCE_DIR}/crypto)
  # BoringSSL
  set(c ${CMAKE_SOURCE_DIR})
  cmake_language(DEFER CALL compile_alone ${c}
    ${c}/crypto/dsa/dsa.cc
    ${c}/crypto/dsa/dsa_asn1.cc
    ${c}/crypto/ecdsa/ecdsa_asn1.cc
    ${c}/crypto/evp/p_mlkem.cc
    ${c}/crypto/fipsmodule/bcm.cc
    ${c}/crypto/pkcs8/pkcs8_x509.cc
    ${c}/crypto/trust_token/voprf.cc
    ${c}/ssl/tls13_server.cc)
endif()

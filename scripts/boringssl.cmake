# How BoringSSL, which `quic-quiche` uses, is compiled: read by CMake through $CMAKE_TOOLCHAIN_FILE, which
# the Makefile sets. Most of the time goes into reading the same headers for some 300 small files, so
# several files are compiled as one; with that, and without debugging information, it takes a quarter.
# Without this file everything builds all the same.
set(CMAKE_UNITY_BUILD ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g0 -DNDEBUG" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g0 -DNDEBUG" CACHE STRING "")

# Files with names of their own that another file has, too.
set_source_files_properties(
  crypto/dsa/dsa.cc
  crypto/dsa/dsa_asn1.cc
  crypto/ecdsa/ecdsa_asn1.cc
  crypto/evp/p_mlkem.cc
  crypto/fipsmodule/bcm.cc
  crypto/pkcs8/pkcs8_x509.cc
  crypto/trust_token/voprf.cc
  ssl/tls13_server.cc
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

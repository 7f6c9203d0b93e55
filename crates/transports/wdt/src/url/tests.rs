use proptest::prelude::*;

use super::*;

const PLAIN: &str =
    "wdt://127.0.0.1:39601?id=1091973751&iv_change_int=34359738368&num_ports=1&recpv=32&tls=0";
const LIST: &str = "wdt://127.0.0.1?id=1629602088&iv_change_int=34359738368&ports=38147,43465,39419,33327&recpv=32&tls=0";
const SECRET: &str = "wdt://127.0.0.1:45191?Enc=1:4d68b299c6dda26733981701be805ec4&id=1037705050&iv_change_int=34359738368&num_ports=1&recpv=32&tls=0";

#[test]
fn reference_urls_round_trip_exactly() {
    for url in [PLAIN, LIST, SECRET] {
        assert_eq!(ConnectionUrl::parse(url).unwrap().to_secret_string(), url);
    }
    assert_eq!(
        ConnectionUrl::parse(LIST).unwrap().ports,
        [38147, 43465, 39419, 33327]
    );
}

#[test]
fn the_key_is_never_shown() {
    let url = ConnectionUrl::parse(SECRET).unwrap();
    let shown = format!("{url:?} {:?}", url.secret);
    assert!(!shown.contains("4d68"), "{shown}");
    assert!(shown.contains("1037705050"), "{shown}");
    let invalid = SECRET.replace("4d68", "4dxx");
    let error = ConnectionUrl::parse(&invalid).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("b299"), "{error:?}");
}

#[test]
fn ipv6_addresses_are_bracketed() {
    let url = ConnectionUrl::parse("wdt://[::1]:5000?num_ports=3&id=x").unwrap();
    assert_eq!(
        (url.host.as_str(), &url.ports[..]),
        ("::1", &[5000, 5001, 5002][..])
    );
    assert_eq!(
        url.to_secret_string(),
        "wdt://[::1]:5000?id=x&num_ports=3&tls=0"
    );
    let url =
        ConnectionUrl::parse("wdt://h?start_port=7&num_ports=2&unknown=%zz&id=a%20b").unwrap();
    assert_eq!((url.ports, url.id), (vec![7, 8], b"a b".to_vec()));
}

#[test]
fn invalid_urls_are_refused_with_the_field() {
    for (url, why) in [
        ("http://h:1", UrlError::Scheme),
        ("wdt://", UrlError::Host),
        ("wdt://:5", UrlError::Host),
        ("wdt://a b:5", UrlError::Host),
        ("wdt://[::1:5", UrlError::Host),
        ("wdt://h", UrlError::NoPorts),
        ("wdt://h:0", UrlError::Value("the port")),
        ("wdt://h:70000", UrlError::Value("the port")),
        ("wdt://h:65535?num_ports=2", UrlError::Value("num_ports")),
        ("wdt://h:1?num_ports=0", UrlError::Value("num_ports")),
        ("wdt://h:1?num_ports=2000", UrlError::Value("num_ports")),
        ("wdt://h?ports=1,2,1", UrlError::Value("ports")),
        ("wdt://h?ports=1,,2", UrlError::Value("ports")),
        ("wdt://h:1?id=%4", UrlError::Value("id")),
        (
            "wdt://h:1?Enc=3:4d68b299c6dda26733981701be805ec4",
            UrlError::Value("Enc"),
        ),
        ("wdt://h:1?Enc=2:4d68b299", UrlError::Value("Enc")),
        ("wdt://h:1?recpv=-1", UrlError::Value("recpv")),
    ] {
        assert_eq!(ConnectionUrl::parse(url).unwrap_err(), why, "{url}");
    }
    let long = format!("wdt://h:1?id={}", "a".repeat(1025));
    assert_eq!(
        ConnectionUrl::parse(&long).unwrap_err(),
        UrlError::Value("id")
    );
}

proptest! {
    #[test]
    fn urls_round_trip(
        ports in proptest::collection::hash_set(1_u16.., 1..20),
        id in proptest::collection::vec(any::<u8>(), 1..40),
        key in proptest::option::of(any::<[u8; 16]>()),
        version in proptest::option::of(any::<u32>()),
        iv_change_bytes in any::<u64>(),
        resumption in any::<bool>(),
    ) {
        let secret = key.map(|key| Secret {
            cipher: Cipher::Aes128Gcm,
            key: Key::new(key),
            iv_change_bytes,
        });
        let ports = ports.into_iter().collect();
        let url = ConnectionUrl {
            host: "fe80::1".to_owned(), ports, id, version, secret, iv_change_bytes, resumption,
        };
        prop_assert!(ConnectionUrl::parse(&url.to_secret_string()).unwrap() == url);
    }

    #[test]
    fn parsing_any_text_does_not_panic(text in "(wdt://)?[a-z0-9:?&=%,\\[\\]._/-]{0,80}\\PC{0,20}") {
        let _ = ConnectionUrl::parse(&text);
    }
}

//! Signed requests: HMAC-SHA1 over the values of all header fields, in the order of their names, and the body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use super::Credentials;
use crate::protocol::{RemotingCommand, RequestCode};

const ACCESS_KEY: &str = "AccessKey";
const SECURITY_TOKEN: &str = "SecurityToken";
const SIGNATURE: &str = "Signature";

/// Marks a query by unique key (code 12). Servers 4.9.x leave it out of what they check; servers 5.x do so only for
/// versions up to 4.9.3.
const UNIQUE_KEY_QUERY: &str = "_UNIQUE_KEY_QUERY";
const UNSIGNED_UNIQUE_KEY_QUERY: i32 = 399;

/// Signs a request. All other fields have to be there already: the server checks every field it gets.
pub(super) fn sign(command: &mut RemotingCommand, credentials: &Credentials) {
    command.fields.remove(SIGNATURE);
    command.fields.set(ACCESS_KEY, credentials.access_key.as_str());
    if let Some(token) = &credentials.security_token {
        command.fields.set(SECURITY_TOKEN, token.as_str());
    }
    let left_out = unique_key_query(command);
    if left_out.is_some() {
        // The one form that servers of both generations accept.
        command.version = command.version.min(UNSIGNED_UNIQUE_KEY_QUERY);
    }
    let signature = mac(command, &credentials.secret_key, left_out).finalize().into_bytes();
    command.fields.set(SIGNATURE, STANDARD.encode(signature));
}

/// The account that a request says it is from.
pub(crate) fn access_key(command: &RemotingCommand) -> Option<&str> {
    command.fields.get(ACCESS_KEY)
}

/// Whether a request is signed with this key. Queries by unique key may have their mark signed or not: clients differ.
pub(crate) fn is_signed_with(command: &RemotingCommand, secret_key: &str) -> bool {
    let Some(signature) = command.fields.get(SIGNATURE).and_then(|text| STANDARD.decode(text).ok()) else {
        return false;
    };
    let matches = |left_out| mac(command, secret_key, left_out).verify_slice(&signature).is_ok();
    matches(None) || unique_key_query(command).is_some_and(|mark| matches(Some(mark)))
}

fn unique_key_query(command: &RemotingCommand) -> Option<&'static str> {
    let marked = command.request_code() == RequestCode::QUERY_MESSAGE
        && command.fields.get(UNIQUE_KEY_QUERY).is_some();
    marked.then_some(UNIQUE_KEY_QUERY)
}

fn mac(command: &RemotingCommand, secret_key: &str, left_out: Option<&str>) -> Hmac<Sha1> {
    let signed = |name: &str| name != SIGNATURE && Some(name) != left_out;
    let mut fields: Vec<_> = command.fields.iter().filter(|(name, _)| signed(name)).collect();
    fields.sort_unstable();
    let mut mac = Hmac::new_from_slice(secret_key.as_bytes()).expect("HMAC takes keys of any length");
    for (_, value) in fields {
        mac.update(value.as_bytes());
    }
    mac.update(&command.body);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Fields, Frame};

    fn request(code: i32, fields: &[(&'static str, &str)], body: &str) -> RemotingCommand {
        let mut command = RemotingCommand::request(RequestCode(code)).body(body.as_bytes().to_vec());
        command.fields = fields.iter().copied().collect::<Fields>();
        command
    }

    fn signature(command: &RemotingCommand, credentials: &Credentials) -> String {
        let mut command = command.clone();
        sign(&mut command, credentials);
        command.fields.get(SIGNATURE).unwrap().to_owned()
    }

    #[test]
    fn the_text_of_the_java_library() {
        let command = request(10, &[], "Hello RocketMQ Client ACL Feature");
        let mac = mac(&command, "adiaushdiaushd", None).finalize().into_bytes();
        assert_eq!(STANDARD.encode(mac), "tAb/54Rwwcq+pbH8Loi7FWX4QSQ=");
    }

    #[test]
    fn small_requests_with_and_without_body() {
        let credentials = Credentials::new("ak", "sk");
        let fields = [("topic", "TopicTest"), ("queueId", "0"), ("consumerGroup", "g1")];
        assert_eq!(signature(&request(11, &fields, ""), &credentials), "bYlsFbFwi64i7RBx0cXi5sDZFfY=");
        assert_eq!(signature(&request(11, &fields, "hello"), &credentials), "kan/wjaunT6aFM4624ol3LAt+rA=");
    }

    /// All fields, those of the signing itself included, in the order of the bytes of their names, and then the body.
    #[test]
    fn a2_fields_are_signed_in_the_order_of_their_bytes() {
        let credentials = Credentials::new("ak", "sk").security_token("st");
        let fields =
            [("b", "5"), ("Z", "2"), ("a", "4"), ("_", "3"), ("B", "1"), ("\u{e4}", "6"), ("empty", "")];
        // AccessKey, B, SecurityToken, Z, _, a, b, empty, \u{e4}
        let text = "ak1st23456body";
        let mut expected = Hmac::<Sha1>::new_from_slice(b"sk").unwrap();
        expected.update(text.as_bytes());
        let expected = STANDARD.encode(expected.finalize().into_bytes());
        for code in [10, 11, 14, 34, 36, 41, 105, 310] {
            assert_eq!(signature(&request(code, &fields, "body"), &credentials), expected, "{code}");
        }
    }

    #[test]
    fn a2_requests_of_a_recorded_java_client() {
        let credentials = Credentials::new("cap-access", "cap-secret-1234");
        let offset = [
            ("queueId", "2"),
            ("bname", "broker-a"),
            ("topic", "cap-orders"),
            ("consumerGroup", "cap-trace-group"),
        ];
        assert_eq!(signature(&request(14, &offset, ""), &credentials), "Dxh7OC7zFCg87qmHfMMYl1wujVc=");
        let leave = [("clientID", "192.0.2.2@cap-trc"), ("consumerGroup", "cap-trace-group")];
        assert_eq!(signature(&request(35, &leave, ""), &credentials), "RcmU6GgKlKwEeflCNJXKPmMeq3o=");
        let properties = "KEYS\u{1}traced\u{2}UNIQ_KEY\u{1}FD0000000000000000000000000000026BA55FFD2B279403F00B002C\u{2}\
                          WAIT\u{1}true\u{2}TAGS\u{1}a\u{2}";
        let send = [
            ("a", "cap-trace-producer"),
            ("b", "cap-orders"),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", "1"),
            ("f", "0"),
            ("g", "1795974486034"),
            ("h", "0"),
            ("i", properties),
            ("j", "0"),
            ("k", "false"),
            ("m", "false"),
            ("n", "broker-a"),
        ];
        assert_eq!(signature(&request(310, &send, "traced"), &credentials), "xENHd6TSWtb7fI0Ffps1rJnnsIk=");
    }

    /// Every signed request in the recordings, in both encodings, with and without body.
    #[test]
    fn a2_all_recorded_signatures_are_accepted() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let mut checked = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "jsonl") {
                continue;
            }
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                let command =
                    Frame::parse(from_hex(line["frame"].as_str().unwrap())).unwrap().command().unwrap();
                if command.fields.get(SIGNATURE).is_some() {
                    assert!(is_signed_with(&command, "cap-secret-1234"), "{}: {}", path.display(), line["n"]);
                    checked += 1;
                }
            }
        }
        assert_eq!(checked, 21, "the number of signed requests that were recorded");
    }

    fn from_hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().chunks(2);
        digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn what_is_signed_is_accepted_and_nothing_else() {
        let credentials = Credentials::new("ak", "sk").security_token("token");
        let mut command = request(11, &[("topic", "T")], "body");
        assert!(!is_signed_with(&command, "sk"));
        sign(&mut command, &credentials);
        assert_eq!(access_key(&command), Some("ak"));
        assert_eq!(command.fields.get(SECURITY_TOKEN), Some("token"));
        assert!(is_signed_with(&command, "sk"));
        assert!(!is_signed_with(&command, "other"));
        let again = signature(&command, &credentials);
        assert_eq!(command.fields.get(SIGNATURE), Some(&*again), "signing twice signs the same");
        command.fields.set("topic", "U");
        assert!(!is_signed_with(&command, "sk"));
        command.fields.set(SIGNATURE, "no base64!");
        assert!(!is_signed_with(&command, "sk"));
    }

    #[test]
    fn the_mark_of_a_query_by_unique_key_is_not_signed() {
        let credentials = Credentials::new("ak", "sk");
        let plain = request(12, &[("key", "K")], "");
        let mut marked = request(12, &[("key", "K"), (UNIQUE_KEY_QUERY, "true")], "");
        assert_eq!(signature(&marked, &credentials), signature(&plain, &credentials));
        sign(&mut marked, &credentials);
        assert_eq!(marked.version, UNSIGNED_UNIQUE_KEY_QUERY);
        assert!(is_signed_with(&marked, "sk"));
        // As Java clients from 4.9.4 on do it.
        let java = mac(&marked, "sk", None).finalize().into_bytes();
        marked.fields.set(SIGNATURE, STANDARD.encode(java));
        assert!(is_signed_with(&marked, "sk"));
    }
}

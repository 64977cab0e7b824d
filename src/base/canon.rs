//! Canonical, typed, length-prefixed encoding of values: equal values give equal bytes, different values different bytes.
//!
//! Cache keys are digests of this encoding. Integers and floats are distinct types: the parameter schema decides which a
//! number is before it comes here, so `1`, `1.0` and `1e0` are one value where a float is expected.

use super::digest::Digest;
use serde_json::Value;

/// Appends the canonical encoding of `value`: a type tag, a length where there is one, and the content; maps by sorted key.
///
/// `-0.0` is encoded as `0.0`. JSON has no NaN or infinity, so none can come here.
pub fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(b'n'),
        Value::Bool(b) => out.extend([b'b', u8::from(*b)]),
        Value::Number(n) => {
            if let Some(i) = n.as_i64() {
                out.push(b'i');
                out.extend(i.to_le_bytes());
            } else if let Some(u) = n.as_u64() {
                out.push(b'u');
                out.extend(u.to_le_bytes());
            } else {
                let f = n.as_f64().unwrap_or(0.0) + 0.0;
                out.push(b'f');
                out.extend(f.to_bits().to_le_bytes());
            }
        }
        Value::String(s) => text(b's', s, out),
        Value::Array(items) => {
            out.push(b'l');
            out.extend((items.len() as u64).to_le_bytes());
            for item in items {
                encode(item, out);
            }
        }
        Value::Object(map) => {
            out.push(b'm');
            out.extend((map.len() as u64).to_le_bytes());
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            for key in keys {
                text(b'k', key, out);
                encode(&map[key], out);
            }
        }
    }
}

fn text(tag: u8, s: &str, out: &mut Vec<u8>) {
    out.push(tag);
    out.extend((s.len() as u64).to_le_bytes());
    out.extend(s.as_bytes());
}

/// The digest of a value's canonical encoding.
#[must_use]
pub fn digest(value: &Value) -> Digest {
    let mut bytes = Vec::with_capacity(256);
    encode(value, &mut bytes);
    Digest::of(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_does_not_matter_but_types_and_nesting_do() {
        assert_eq!(digest(&json!({"a": 1, "b": 2})), digest(&json!({"b": 2, "a": 1})));
        assert_eq!(digest(&json!(0.0)), digest(&json!(-0.0)));
        for (a, b) in [
            (json!(1), json!(1.0)),
            (json!("1"), json!(1)),
            (json!(["ab"]), json!(["a", "b"])),
            (json!(["x"]), json!({"x": null})),
            (json!([[1], 2]), json!([[1, 2]])),
            (json!(null), json!(false)),
        ] {
            assert_ne!(digest(&a), digest(&b), "{a} and {b}");
        }
    }
}

//! The `json!` macro.

/// A [`Value`](crate::Value) in JSON syntax with Rust expressions as values.
///
/// Expressions may have any type that `Value::from` accepts: strings, numbers, booleans, options,
/// lists, and values. Keys are literals, or expressions in parentheses.
///
/// ```
/// use kubewright_core::{Value, json};
/// let (replicas, label) = (3, "example.com/owner".to_owned());
/// let patch = json!({
///     "metadata": {"labels": {(label): "me"}, "finalizers": null},
///     "spec": {"replicas": replicas + 1, "args": ["-v", 2]},
/// });
/// assert_eq!(patch.get("spec").unwrap().get("replicas"), Some(&Value::Int(4)));
/// assert_eq!(json!([1, [], {}, 1.5]).to_string(), "[1,[],{},1.5]");
/// ```
#[macro_export]
macro_rules! json {
    (null) => { $crate::Value::Null };
    ([ $($items:tt)* ]) => {{
        #[allow(unused_mut)]
        let mut items = $crate::List::<$crate::Value>::new();
        $crate::json!(@items items $($items)*);
        $crate::Value::Array(items)
    }};
    ({ $($members:tt)* }) => {{
        #[allow(unused_mut)]
        let mut members = $crate::Map::<$crate::Value>::new();
        $crate::json!(@members members $($members)*);
        $crate::Value::Object(members)
    }};

    // JSON syntax is matched before Rust expressions.
    (@items $list:ident) => {};
    (@items $list:ident null $(, $($rest:tt)*)?) => { $crate::json!(@item $list null; $($($rest)*)?) };
    (@items $list:ident [ $($items:tt)* ] $(, $($rest:tt)*)?) => { $crate::json!(@item $list [ $($items)* ]; $($($rest)*)?) };
    (@items $list:ident { $($members:tt)* } $(, $($rest:tt)*)?) => { $crate::json!(@item $list { $($members)* }; $($($rest)*)?) };
    (@items $list:ident $item:expr $(, $($rest:tt)*)?) => { $crate::json!(@item $list $item; $($($rest)*)?) };
    (@item $list:ident $item:tt; $($rest:tt)*) => {
        $list.push($crate::json!($item));
        $crate::json!(@items $list $($rest)*);
    };

    (@members $map:ident) => {};
    (@members $map:ident $key:tt : null $(, $($rest:tt)*)?) => { $crate::json!(@member $map $key null; $($($rest)*)?) };
    (@members $map:ident $key:tt : [ $($items:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::json!(@member $map $key [ $($items)* ]; $($($rest)*)?)
    };
    (@members $map:ident $key:tt : { $($members:tt)* } $(, $($rest:tt)*)?) => {
        $crate::json!(@member $map $key { $($members)* }; $($($rest)*)?)
    };
    (@members $map:ident $key:tt : $value:expr $(, $($rest:tt)*)?) => { $crate::json!(@member $map $key $value; $($($rest)*)?) };
    (@member $map:ident ($key:expr) $value:tt; $($rest:tt)*) => {
        $map.insert($key, $crate::json!($value));
        $crate::json!(@members $map $($rest)*);
    };
    (@member $map:ident $key:literal $value:tt; $($rest:tt)*) => {
        $map.insert($key, $crate::json!($value));
        $crate::json!(@members $map $($rest)*);
    };

    ($value:expr) => { $crate::Value::from($value) };
}

#[cfg(test)]
mod tests {
    use crate::{Str, Value};

    #[test]
    fn literals_equal_parsed_json() {
        let (none, text) = (None::<i64>, Str::from("x"));
        for (value, text) in [
            (json!(null), "null"),
            (json!(true), "true"),
            (json!(-1), "-1"),
            (json!({}), "{}"),
            (json!([]), "[]"),
            (json!([null, [1], {"a": 1}, 1 + 1,]), r#"[null,[1],{"a":1},2]"#),
            (json!({"b": null, "a": [], "c": {"d": [{}]},}), r#"{"a":[],"b":null,"c":{"d":[{}]}}"#),
            (json!({"a": none, "b": Some("x"), "c": &text, "d": text.len()}), r#"{"a":null,"b":"x","c":"x","d":1}"#),
            (json!({"a": if text.is_empty() { 1 } else { 2 }, ("b".to_owned() + "c"): [1, 2][1]}), r#"{"a":2,"bc":2}"#),
            (json!({"a": vec!["x", "y"], "b": json!({"c": 1})}), r#"{"a":["x","y"],"b":{"c":1}}"#),
            (json!(u64::MAX), "18446744073709552000.0"),
        ] {
            assert_eq!(value, text.parse().unwrap(), "{value}");
            assert_eq!(value.to_string().parse::<Value>().unwrap(), value);
        }
    }
}

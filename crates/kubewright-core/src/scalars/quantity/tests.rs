//! The tables `quantity.tsv` and `quantity_pairs.tsv` contain the results of Go's
//! `resource.Quantity`.

use std::collections::hash_map::DefaultHasher;

use proptest::prelude::*;

use super::*;

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn hash(quantity: &Quantity) -> u64 {
    let mut hasher = DefaultHasher::new();
    quantity.hash(&mut hasher);
    hasher.finish()
}

/// Texts of any kind: common ones, and corner cases of the scanner.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[+-]?[0-9]{1,4}(m|k|M|G|Ki|Mi|Gi|Ti)?",
        "[+-]?[0-9]{0,25}[.]?[0-9]{0,25}(n|u|m||k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)",
        "[+-]?[0-9]{1,20}[.]?[0-9]{0,12}[eE][+-]?[0-9]{1,10}",
        "[-+0-9.eEinumkKMGTP]{0,12}",
    ]
}

/// The quantity, if sums of a thousand of them stay exact.
fn exact(text: &str) -> Option<Quantity> {
    let quantity: Quantity = text.parse().ok()?;
    let limit = Quantity::from_scaled(1, 25);
    (quantity < limit && quantity > -limit.clone()).then_some(quantity)
}

#[test]
fn an_optional_quantity_takes_two_words() {
    assert_eq!((size_of::<Quantity>(), size_of::<Option<Quantity>>()), (16, 16));
}

#[test]
fn texts_are_read_and_printed_as_go_does() {
    for row in include_str!("../../../tests/data/quantity.tsv").lines() {
        let columns: Vec<_> = row.split('\t').collect();
        match columns[..] {
            [text, "error", kind] => {
                let error = text.parse::<Quantity>().expect_err(text).to_string();
                let message = match kind {
                    "format" => "quantities must match",
                    "numeric" => "unable to parse numeric part",
                    _ => "unable to parse quantity's suffix",
                };
                assert!(error.starts_with(message), "{text}: {error}");
            }
            [text, printed, canonical, format, value, milli, mega, float] => {
                let quantity = quantity(text);
                assert_eq!(quantity.to_string(), printed, "{text}");
                assert_eq!(quantity.to_canonical().to_string(), canonical, "{text}");
                assert_eq!(format!("{:?}", quantity.format()).to_uppercase(), format.to_uppercase(), "{text}");
                // A dash marks where Go overflows or rounds a negative number wrongly.
                for (scale, expected) in [(0, value), (-3, milli), (6, mega)] {
                    let number = quantity.scaled_value(scale).to_string();
                    assert!(expected == "-" || number == expected, "{text}: {number} instead of {expected}");
                }
                // Go rounds twice, and so sometimes differs in the last bit.
                let float: f64 = float.parse().unwrap();
                assert!((quantity.to_f64() - float).abs() <= float.abs() * f64::EPSILON, "{text}");
            }
            _ => panic!("{row:?}"),
        }
    }
}

#[test]
fn pairs_are_compared_added_and_subtracted_as_go_does() {
    for row in include_str!("../../../tests/data/quantity_pairs.tsv").lines() {
        let columns: Vec<_> = row.split('\t').collect();
        let [first, second, order, sum, difference, factor, product] = columns[..] else { panic!("{row:?}") };
        let (first, second) = (quantity(first), quantity(second));
        assert_eq!((first.cmp(&second) as i8).to_string(), order, "{row}");
        assert_eq!((first.clone() + &second).to_string(), sum, "{row}");
        assert_eq!((first.clone() - &second).to_string(), difference, "{row}");
        assert_eq!((first * factor.parse().unwrap()).to_string(), product, "{row}");
    }
}

#[test]
fn numbers_beyond_the_suffixes_are_printed_with_an_exponent() {
    for (text, printed) in [("1000E", "1e21"), ("12345000E", "12345e21"), ("1e2147483647", "10e2147483646")] {
        assert_eq!(quantity(text).to_string(), printed);
        assert_eq!(quantity(printed), quantity(text));
    }
    assert_eq!((quantity("7Ei") * 1024 * 1024).to_string(), "7340032Ei");
    assert_eq!((quantity("1Ki") + &quantity("1e200")).to_canonical().signum(), 1);
}

#[test]
fn values_beyond_64_bits_are_limited() {
    assert_eq!((quantity("10E").value(), quantity("-10E").value()), (i64::MAX, i64::MIN));
    assert_eq!((quantity("1e2000000000").milli_value(), quantity("0e2000000000").milli_value()), (i64::MAX, 0));
    assert_eq!(quantity("1.5Gi").as_i64(), Some(1_610_612_736));
    assert_eq!((quantity("1500m").as_i64(), quantity("10E").as_i64()), (None, None));
}

#[test]
fn negative_values_are_rounded_away_from_zero() {
    assert_eq!((quantity("-1.5").value(), quantity("-0.1Ki").value()), (-2, -103));
}

#[test]
fn rounding_up_returns_whether_it_was_exact() {
    let mut cpu = quantity("100001u");
    assert!(!cpu.round_up(-3));
    assert_eq!(cpu.to_string(), "101m");
    let mut kept = quantity("1.250");
    assert!(kept.round_up(-3));
    assert_eq!(kept.to_string(), "1.250");
}

#[test]
fn quantities_are_constructed_in_any_format() {
    for (quantity, printed) in [
        (Quantity::new(2048, QuantityFormat::BinarySi), "2Ki"),
        (Quantity::new(2_000_000, QuantityFormat::DecimalExponent), "2e6"),
        (Quantity::from_milli(1500, QuantityFormat::BinarySi), "1500m"),
        (Quantity::from_scaled(15, 5), "1500k"),
        (Quantity::from_scaled(15, -10), "2n"),
        (Quantity::from(7), "7"),
        (Quantity::default(), "0"),
        (quantity("1Gi").with_format(QuantityFormat::DecimalSi), "1073741824"),
        (-quantity("1Gi"), "-1Gi"),
        ([quantity("1Gi"), quantity("512Mi")].iter().sum(), "1536Mi"),
    ] {
        assert_eq!(quantity.to_string(), printed);
    }
}

#[test]
fn json_is_read_from_strings_and_numbers_and_written_as_strings() {
    for (json, printed) in [
        (r#""1024Mi""#, r#""1Gi""#),
        (r#"" 2 ""#, r#""2""#),
        ("5", r#""5""#),
        ("-1000", r#""-1k""#),
        ("0.5", r#""500m""#),
        ("18446744073709551615", r#""18446744073709551615""#),
        ("null", r#""0""#),
    ] {
        let quantity: Quantity = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&quantity).unwrap(), printed);
    }
    for json in ["true", "[]", r#""""#, r#""1 Gi""#] {
        assert!(serde_json::from_str::<Quantity>(json).is_err(), "{json}");
    }
}

#[test]
fn text_is_padded_and_debugged_readably() {
    assert_eq!(format!("{:>6}", quantity("1Gi")), "   1Gi");
    assert_eq!(format!("{:?}", quantity("1Gi")), "Quantity(1Gi)");
}

proptest! {
    #[test]
    fn a_printed_quantity_parses_to_the_same_number(text in any_text()) {
        if let Ok(quantity) = text.parse::<Quantity>() {
            for printed in [quantity.to_string(), quantity.to_canonical().to_string()] {
                prop_assert_eq!(&printed.parse::<Quantity>().unwrap(), &quantity);
            }
        }
    }

    #[test]
    fn equal_numbers_hash_alike(text in any_text(), factor in 1..1000i64) {
        if let Some(quantity) = exact(&text) {
            let product = quantity.clone() * factor;
            let sum = (0..factor).fold(Quantity::ZERO, |sum, _| sum + &quantity);
            prop_assert_eq!(&product, &sum);
            prop_assert_eq!(hash(&product), hash(&sum));
        }
    }

    #[test]
    fn subtraction_undoes_addition(first in any_text(), second in any_text()) {
        if let (Some(first), Some(second)) = (exact(&first), exact(&second)) {
            prop_assert_eq!(first.clone() + &second - &second, first);
        }
    }
}

//! The number of a quantity: an integer of up to 38 digits times a power of ten.
//!
//! All operations take bounded time and memory, whatever the powers: a result of more than 38
//! digits keeps the first of them and is rounded away from zero.

use std::cmp::Ordering;

/// `mantissa * 10^scale`. A number has many such forms; [`Decimal::reduced`] is unique.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal {
    pub(super) mantissa: i128,
    pub(super) scale: i32,
}

impl Decimal {
    /// The mantissa without trailing zeros, and its power of ten.
    #[inline]
    pub(super) fn reduced(self) -> (i128, i64) {
        let mut exponent = i64::from(self.scale);
        if self.mantissa == 0 {
            return (0, 0);
        }
        let mut wide = self.mantissa;
        while i64::try_from(wide).is_err() && wide % 10 == 0 {
            wide /= 10;
            exponent += 1;
        }
        let Ok(mut narrow) = i64::try_from(wide) else { return (wide, exponent) };
        while narrow % 10 == 0 {
            narrow /= 10;
            exponent += 1;
        }
        (i128::from(narrow), exponent)
    }

    /// The number in units of `10^scale`, rounded away from zero, and whether it is exact.
    ///
    /// A number in larger units is unchanged.
    #[inline]
    pub(super) fn rounded_to(self, scale: i32) -> (Decimal, bool) {
        if self.scale >= scale {
            return (self, true);
        }
        let Some(unit) = power_of_ten(i64::from(scale) - i64::from(self.scale)) else {
            return (Decimal { mantissa: self.mantissa.signum(), scale }, self.mantissa == 0);
        };
        let (whole, rest) = (self.mantissa / unit, self.mantissa % unit);
        (Decimal { mantissa: whole + rest.signum(), scale }, rest == 0)
    }

    /// The number divided by `10^scale`, rounded away from zero; `None` beyond 128 bits.
    #[inline]
    pub(super) fn in_units_of(self, scale: i32) -> Option<i128> {
        let rounded = self.rounded_to(scale).0;
        if rounded.mantissa == 0 {
            return Some(0);
        }
        rounded.mantissa.checked_mul(power_of_ten(i64::from(rounded.scale) - i64::from(scale))?)
    }

    /// The number if it is an integer of at most 128 bits.
    #[inline]
    pub(super) fn to_integer(self) -> Option<i128> {
        self.rounded_to(0).1.then(|| self.in_units_of(0)).flatten()
    }

    #[inline]
    pub(super) fn plus(self, other: Decimal) -> Decimal {
        let (mut high, low) = if self.scale >= other.scale { (self, other) } else { (other, self) };
        if low.mantissa == 0 {
            return high;
        }
        if high.mantissa == 0 {
            return low;
        }
        let exact = power_of_ten(i64::from(high.scale) - i64::from(low.scale))
            .and_then(|factor| high.mantissa.checked_mul(factor))
            .and_then(|mantissa| mantissa.checked_add(low.mantissa));
        if let Some(mantissa) = exact {
            return Decimal { mantissa, scale: low.scale };
        }
        // The sum has too many digits: use the smallest unit in which the larger operand still
        // fits.
        while high.scale > low.scale && high.mantissa.unsigned_abs() < i128::MAX.unsigned_abs() / 20 {
            high = Decimal { mantissa: high.mantissa * 10, scale: high.scale - 1 };
        }
        let scale = high.scale.saturating_add(1);
        let (high, low) = (high.rounded_to(scale).0, low.rounded_to(scale).0);
        Decimal { mantissa: high.mantissa.saturating_add(low.mantissa), scale: high.scale }
    }

    #[inline]
    pub(super) fn times(mut self, factor: i64) -> Decimal {
        loop {
            if let Some(mantissa) = self.mantissa.checked_mul(i128::from(factor)) {
                return Decimal { mantissa, scale: self.scale };
            }
            self = self.rounded_to(self.scale.saturating_add(1)).0;
        }
    }

    #[inline]
    pub(super) fn compare(self, other: Decimal) -> Ordering {
        if self.scale < other.scale {
            return other.compare(self).reverse();
        }
        if self.mantissa == 0 || self.scale == other.scale {
            return self.mantissa.cmp(&other.mantissa);
        }
        let aligned = power_of_ten(i64::from(self.scale) - i64::from(other.scale))
            .and_then(|factor| self.mantissa.checked_mul(factor));
        match aligned {
            Some(mantissa) => mantissa.cmp(&other.mantissa),
            // In the units of the other number this one exceeds 128 bits, so its sign decides.
            None => self.mantissa.cmp(&0),
        }
    }
}

/// `10^exponent`, if it fits.
#[inline]
pub(super) fn power_of_ten(exponent: i64) -> Option<i128> {
    10i128.checked_pow(u32::try_from(exponent).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn small_numbers_add_and_compare_as_integers(a in -1_000_000i64..1_000_000, b in -1_000_000i64..1_000_000, x in 0..6i32, y in 0..6i32) {
            let integer = |mantissa: i64, scale: i32| i128::from(mantissa) * 10i128.pow(scale as u32);
            let (first, second) = (Decimal { mantissa: a.into(), scale: x }, Decimal { mantissa: b.into(), scale: y });
            prop_assert_eq!(first.plus(second).to_integer(), Some(integer(a, x) + integer(b, y)));
            prop_assert_eq!(first.compare(second), integer(a, x).cmp(&integer(b, y)));
        }

        #[test]
        fn no_operation_overflows(a in any::<i128>(), b in any::<i128>(), x in any::<i32>(), y in any::<i32>(), factor in any::<i64>()) {
            let (first, second) = (Decimal { mantissa: a, scale: x }, Decimal { mantissa: b, scale: y });
            first.plus(second);
            first.times(factor);
            first.reduced();
            first.rounded_to(y);
            first.in_units_of(y);
            prop_assert_eq!(first.compare(second), second.compare(first).reverse());
        }
    }

    #[test]
    fn a_sum_of_too_many_digits_keeps_the_first_ones() {
        let huge = Decimal { mantissa: 1, scale: 2_000_000_000 };
        let one = Decimal { mantissa: 1, scale: 0 };
        let sum = huge.plus(one);
        assert_eq!(sum.compare(huge), Ordering::Greater);
        assert_eq!(sum.compare(huge.times(2)), Ordering::Less);
    }
}

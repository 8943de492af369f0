//! Addition, subtraction and multiplication.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use super::decimal::Decimal;
use super::{Quantity, QuantityFormat};

impl Quantity {
    /// Adds `number`. A zero takes over the format of the other operand.
    #[inline]
    fn add_decimal(&mut self, number: Decimal, format: QuantityFormat) {
        let format = if self.is_zero() { format } else { self.format() };
        *self = Quantity::from_decimal(self.decimal().plus(number), format);
    }
}

impl AddAssign<&Quantity> for Quantity {
    #[inline]
    fn add_assign(&mut self, other: &Quantity) {
        self.add_decimal(other.decimal(), other.format());
    }
}

impl SubAssign<&Quantity> for Quantity {
    #[inline]
    fn sub_assign(&mut self, other: &Quantity) {
        self.add_decimal(other.decimal().times(-1), other.format());
    }
}

impl MulAssign<i64> for Quantity {
    #[inline]
    fn mul_assign(&mut self, factor: i64) {
        *self = Quantity::from_decimal(self.decimal().times(factor), self.format());
    }
}

impl Add<&Quantity> for Quantity {
    type Output = Quantity;
    #[inline]
    fn add(mut self, other: &Quantity) -> Quantity {
        self += other;
        self
    }
}

impl Sub<&Quantity> for Quantity {
    type Output = Quantity;
    #[inline]
    fn sub(mut self, other: &Quantity) -> Quantity {
        self -= other;
        self
    }
}

impl Mul<i64> for Quantity {
    type Output = Quantity;
    #[inline]
    fn mul(mut self, factor: i64) -> Quantity {
        self *= factor;
        self
    }
}

impl Neg for Quantity {
    type Output = Quantity;
    #[inline]
    fn neg(self) -> Quantity {
        self * -1
    }
}

impl<'a> Sum<&'a Quantity> for Quantity {
    fn sum<I: Iterator<Item = &'a Quantity>>(quantities: I) -> Quantity {
        quantities.fold(Quantity::ZERO, |sum, quantity| sum + quantity)
    }
}

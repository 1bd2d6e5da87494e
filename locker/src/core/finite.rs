//! A check of the numbers in a value: NaN and the infinities have no JSON form, and serde_json
//! writes each of them as `null`.

use std::fmt;

use serde::Serialize;
use serde::ser::{self, Serializer};

/// Refuses a value that contains a number without a JSON form.
pub(crate) fn check<T: Serialize + ?Sized>(value: &T) -> Result<(), NotFinite> {
    value.serialize(Finite)
}

/// Why a value was refused.
#[derive(Debug)]
pub(crate) enum NotFinite {
    Number,
    /// The `Serialize` implementation of the value returned this error.
    Custom(String),
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number => f.write_str("it contains NaN or an infinite number, which JSON does not have"),
            Self::Custom(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for NotFinite {}

impl ser::Error for NotFinite {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self::Custom(reason.to_string())
    }
}

type Checked = Result<(), NotFinite>;

/// Walks through a value, and writes nothing.
struct Finite;

macro_rules! passes {
    ($($method:ident($($value:ty),*)),* $(,)?) => {$(
        fn $method(self, $(_: $value),*) -> Checked {
            Ok(())
        }
    )*};
}

macro_rules! contains {
    ($($method:ident($($name:ty),*)),* $(,)?) => {$(
        fn $method<T: Serialize + ?Sized>(self, $(_: $name,)* value: &T) -> Checked {
            value.serialize(Self)
        }
    )*};
}

macro_rules! begins {
    ($($method:ident($($name:ty),*)),* $(,)?) => {$(
        fn $method(self, $(_: $name),*) -> Result<Self, NotFinite> {
            Ok(self)
        }
    )*};
}

impl Serializer for Finite {
    type Ok = ();
    type Error = NotFinite;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fn serialize_f32(self, number: f32) -> Checked {
        if number.is_finite() { Ok(()) } else { Err(NotFinite::Number) }
    }

    fn serialize_f64(self, number: f64) -> Checked {
        if number.is_finite() { Ok(()) } else { Err(NotFinite::Number) }
    }

    passes! {
        serialize_bool(bool),
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_i128(i128),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_u128(u128),
        serialize_char(char),
        serialize_str(&str),
        serialize_bytes(&[u8]),
        serialize_none(),
        serialize_unit(),
        serialize_unit_struct(&'static str),
        serialize_unit_variant(&'static str, u32, &'static str),
    }

    contains! {
        serialize_some(),
        serialize_newtype_struct(&'static str),
        serialize_newtype_variant(&'static str, u32, &'static str),
    }

    begins! {
        serialize_seq(Option<usize>),
        serialize_tuple(usize),
        serialize_tuple_struct(&'static str, usize),
        serialize_tuple_variant(&'static str, u32, &'static str, usize),
        serialize_map(Option<usize>),
        serialize_struct(&'static str, usize),
        serialize_struct_variant(&'static str, u32, &'static str, usize),
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, _: &T) -> Checked {
        Ok(())
    }
}

macro_rules! parts {
    ($($kind:ident: $($method:ident($($name:ty)?)),*;)*) => {$(
        impl ser::$kind for Finite {
            type Ok = ();
            type Error = NotFinite;

            $(fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? value: &T) -> Checked {
                value.serialize(Finite)
            })*

            fn end(self) -> Checked {
                Ok(())
            }
        }
    )*};
}

parts! {
    SerializeSeq: serialize_element();
    SerializeTuple: serialize_element();
    SerializeTupleStruct: serialize_field();
    SerializeTupleVariant: serialize_field();
    SerializeMap: serialize_key(), serialize_value();
    SerializeStruct: serialize_field(&'static str);
    SerializeStructVariant: serialize_field(&'static str);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Serialize)]
    enum Any {
        Unit,
        Newtype(f64),
        Tuple(u8, f64),
        Struct { rate: f64 },
    }

    #[derive(Serialize)]
    struct Pair(u8, f32);

    #[derive(Serialize)]
    struct Wrapped(f64);

    #[test]
    fn number_without_a_json_form_is_found_anywhere() {
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let single = odd as f32;
            let refused = [
                check(&odd),
                check(&single),
                check(&Some(odd)),
                check(&[0.0, odd]),
                check(&(1, odd)),
                check(&BTreeMap::from([("a", odd)])),
                check(&Any::Newtype(odd)),
                check(&Any::Tuple(1, odd)),
                check(&Any::Struct { rate: odd }),
                check(&Pair(1, single)),
                check(&Wrapped(odd)),
                check(&vec![Some(BTreeMap::from([(1, [odd])]))]),
            ];
            for (place, refused) in refused.into_iter().enumerate() {
                assert!(matches!(refused, Err(NotFinite::Number)), "{place}: {refused:?}");
            }
        }
    }

    #[test]
    fn every_other_value_passes() {
        let number = i128::MIN;
        let value = (Any::Unit, Any::Newtype(-0.0), (), None::<f64>, 'a', "b", [f64::MAX, 5e-324], number);
        check(&value).unwrap();
        check(&serde_json::json!({ "a": [1, 1.5, null, "x"] })).unwrap();
        check(&std::net::Ipv4Addr::LOCALHOST).unwrap();
    }

    #[test]
    fn own_refusal_of_a_value_is_passed_on() {
        struct Never;
        impl Serialize for Never {
            fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(ser::Error::custom("never"))
            }
        }
        assert_eq!(check(&Never).unwrap_err().to_string(), "never");
    }
}

//! The types of record fields, each with its only encoding.

use std::borrow::Cow;

use crate::{Decode, DecodeError, Decoder, Encode, Encoder, Fixed};

/// An integer type, and its method of encoder and decoder.
macro_rules! integer {
    ($type:ty, $method:ident) => {
        impl Encode for $type {
            #[inline]
            fn encode(&self, out: &mut Encoder<'_>) {
                out.$method(*self);
            }
        }

        impl Decode<'_> for $type {
            #[inline]
            fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                from.$method()
            }
        }

        impl Fixed for $type {
            const BYTES: usize = size_of::<Self>();

            #[inline]
            fn put(&self, to: &mut [u8]) {
                to.copy_from_slice(&self.to_be_bytes());
            }

            #[inline]
            fn get(from: &[u8]) -> Self {
                Self::from_be_bytes(from.try_into().expect("there are so many bytes"))
            }
        }
    };
}

integer!(i32, int);
integer!(i64, long);

impl Encode for bool {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.boolean(*self);
    }
}

impl Decode<'_> for bool {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        from.boolean()
    }
}

impl Encode for Option<&[u8]> {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.buffer(*self);
    }
}

impl<'a> Decode<'a> for Option<&'a [u8]> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        from.buffer()
    }
}

impl Encode for Cow<'_, str> {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.text(self);
    }
}

impl<'a> Decode<'a> for Cow<'a, str> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        from.text()
    }
}

impl Encode for Option<Cow<'_, str>> {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.ustring(self.as_deref());
    }
}

impl<'a> Decode<'a> for Option<Cow<'a, str>> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        from.ustring()
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.vector(Some(self));
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let at = from.position();
        from.vector()?.ok_or(DecodeError::Null { at })
    }
}

impl<T: Encode> Encode for Option<Vec<T>> {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.vector(self.as_deref());
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<Vec<T>> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        from.vector()
    }
}

/// Declares a record once: its fields, in wire order, define its struct, encoder and decoder.
///
/// A borrowing record has the lifetime `'a`. A `fixed` record contains only numbers.
#[macro_export]
macro_rules! record {
    ($(#[$attr:meta])* $name:ident { $($(#[$field_attr:meta])* $field:ident: $type:ty,)* }) => {
        $crate::record!(@ [] [$(#[$attr])*] $name { $($(#[$field_attr])* $field: $type,)* });
    };
    ($(#[$attr:meta])* fixed $name:ident { $($(#[$field_attr:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_attr])* pub $field: $type,)*
        }

        impl $crate::Fixed for $name {
            const BYTES: usize = 0 $(+ <$type as $crate::Fixed>::BYTES)*;

            #[inline]
            fn put(&self, to: &mut [u8]) {
                $(
                    let (field, to) = to.split_at_mut(<$type as $crate::Fixed>::BYTES);
                    $crate::Fixed::put(&self.$field, field);
                )*
                assert!(to.is_empty());
            }

            #[inline]
            fn get(from: &[u8]) -> Self {
                $(
                    let ($field, from) = from.split_at(<$type as $crate::Fixed>::BYTES);
                    let $field = $crate::Fixed::get($field);
                )*
                assert!(from.is_empty());
                Self { $($field,)* }
            }
        }

        impl $crate::Encode for $name {
            fn encode(&self, out: &mut $crate::Encoder<'_>) {
                let mut bytes = [0; <Self as $crate::Fixed>::BYTES];
                $crate::Fixed::put(self, &mut bytes);
                out.raw(&bytes);
            }
        }

        impl $crate::Decode<'_> for $name {
            fn decode(from: &mut $crate::Decoder<'_>) -> Result<Self, $crate::DecodeError> {
                if let Some(bytes) = from.chunk::<{ <Self as $crate::Fixed>::BYTES }>() {
                    return Ok($crate::Fixed::get(bytes));
                }
                // The error reports which field is missing.
                Ok(Self { $($field: $crate::Decode::decode(from)?,)* })
            }
        }
    };
    ($(#[$attr:meta])* $name:ident<$life:lifetime> {
        $($(#[$field_attr:meta])* $field:ident: $type:ty,)*
    }) => {
        $crate::record!(@ [$life] [$(#[$attr])*] $name { $($(#[$field_attr])* $field: $type,)* });
    };
    (@ [$($life:lifetime)?] [$(#[$attr:meta])*] $name:ident {
        $($(#[$field_attr:meta])* $field:ident: $type:ty,)*
    }) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name $(<$life>)? {
            $($(#[$field_attr])* pub $field: $type,)*
        }

        impl $(<$life>)? $crate::Encode for $name $(<$life>)? {
            fn encode(&self, out: &mut $crate::Encoder<'_>) {
                $($crate::Encode::encode(&self.$field, out);)*
            }
        }

        $crate::record!(@decode [$($life)?] $name { $($field,)* });
    };
    (@decode [] $name:ident { $($field:ident,)* }) => {
        impl $crate::Decode<'_> for $name {
            fn decode(from: &mut $crate::Decoder<'_>) -> Result<Self, $crate::DecodeError> {
                Ok(Self { $($field: $crate::Decode::decode(from)?,)* })
            }
        }
    };
    (@decode [$life:lifetime] $name:ident { $($field:ident,)* }) => {
        impl<$life> $crate::Decode<$life> for $name<$life> {
            fn decode(from: &mut $crate::Decoder<$life>) -> Result<Self, $crate::DecodeError> {
                Ok(Self { $($field: $crate::Decode::decode(from)?,)* })
            }
        }
    };
}

/// Encodes an id type as its number.
#[macro_export]
macro_rules! number {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(
            impl $crate::Fixed for $name {
                const BYTES: usize = <$type as $crate::Fixed>::BYTES;

                #[inline]
                fn put(&self, to: &mut [u8]) {
                    $crate::Fixed::put(&self.0, to);
                }

                #[inline]
                fn get(from: &[u8]) -> Self {
                    Self($crate::Fixed::get(from))
                }
            }

            impl $crate::Encode for $name {
                #[inline]
                fn encode(&self, out: &mut $crate::Encoder<'_>) {
                    $crate::Encode::encode(&self.0, out);
                }
            }

            impl $crate::Decode<'_> for $name {
                #[inline]
                fn decode(from: &mut $crate::Decoder<'_>) -> Result<Self, $crate::DecodeError> {
                    <$type as $crate::Decode>::decode(from).map(Self)
                }
            }
        )*
    };
}

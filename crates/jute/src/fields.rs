//! The types a record's field can have, each with its one encoding.

use std::borrow::Cow;

use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

impl Encode for i32 {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.int(*self);
    }
}

impl Decode<'_> for i32 {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        from.int()
    }
}

impl Encode for i64 {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.long(*self);
    }
}

impl Decode<'_> for i64 {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        from.long()
    }
}

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

/// Declares a record once: its fields, in wire order, are its struct, its encoder and its decoder.
///
/// A borrowing record names its lifetime `'a`.
#[macro_export]
macro_rules! record {
    ($(#[$attr:meta])* $name:ident { $($(#[$field_attr:meta])* $field:ident: $type:ty,)* }) => {
        $crate::record!(@ [] [$(#[$attr])*] $name { $($(#[$field_attr])* $field: $type,)* });
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

/// Gives a one-number id type the encoding of its number.
#[macro_export]
macro_rules! number {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(
            impl $crate::Encode for $name {
                fn encode(&self, out: &mut $crate::Encoder<'_>) {
                    $crate::Encode::encode(&self.0, out);
                }
            }

            impl $crate::Decode<'_> for $name {
                fn decode(from: &mut $crate::Decoder<'_>) -> Result<Self, $crate::DecodeError> {
                    <$type as $crate::Decode>::decode(from).map(Self)
                }
            }
        )*
    };
}

//! Text form of a model's identity: 32 hexadecimal digits.

use crate::ModelId;
use std::fmt;
use std::str::FromStr;

impl fmt::Display for ModelId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(to, "{byte:02x}"))
    }
}

impl fmt::Debug for ModelId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "ModelId({self})")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a model id (32 hexadecimal digits)")]
pub struct ModelIdError(String);

impl FromStr for ModelId {
    type Err = ModelIdError;

    fn from_str(text: &str) -> Result<ModelId, ModelIdError> {
        let error = || ModelIdError(text.to_owned());
        let digits = text.as_bytes();
        if digits.len() != 32 {
            return Err(error());
        }
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| (digit as char).to_digit(16).ok_or_else(error);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(ModelId(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text_form() {
        let id = ModelId(std::array::from_fn(|index| index as u8 * 17));
        assert_eq!(id.to_string(), "00112233445566778899aabbccddeeff");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn what_is_not_32_digits_is_refused() {
        for text in [
            "",
            "0",
            "0011223344556677+899aabbccddeeff",
            "é01122334455667788990011223344",
        ] {
            assert!(text.parse::<ModelId>().is_err(), "{text}");
        }
    }
}

//! How values are stored in the columns.

use burnish_core::Source;
use serde::de::value::{Error as NameError, StrDeserializer};
use serde::de::{Deserialize, IntoDeserializer};
use serde::{Serialize, de::DeserializeOwned};

/// Every source; its index is its number in the journal.
const SOURCES: [Source; 11] = [
    Source::Scaffold,
    Source::System,
    Source::User,
    Source::Tool,
    Source::History,
    Source::Demonstration,
    Source::Hint,
    Source::Teacher,
    Source::Patch,
    Source::Policy,
    Source::Latent,
];

pub(super) fn json(value: &impl Serialize) -> Result<String, String> {
    burnish_core::json::text(value).map_err(|error| error.to_string())
}

pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    burnish_core::json::read(text).map_err(|error| error.to_string())
}

/// The name that serde gives to a variant without fields.
pub(super) fn name(variant: &impl Serialize) -> Result<String, String> {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(name)) => Ok(name),
        Ok(other) => Err(format!("{other} is not a name")),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn from_name<'a, T: Deserialize<'a>>(name: &'a str) -> Result<T, String> {
    let deserializer: StrDeserializer<'a, NameError> = name.into_deserializer();
    T::deserialize(deserializer).map_err(|error| error.to_string())
}

pub(super) fn u32_blob(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(super) fn u32_from_blob(blob: &[u8]) -> Result<Vec<u32>, String> {
    Ok(words(blob)?.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
}

pub(super) fn f32_blob(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(super) fn f32_from_blob(blob: &[u8]) -> Result<Vec<f32>, String> {
    Ok(words(blob)?.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

/// Encodes the log-probs with which tokens were drawn. For a greedy answer they are all 0 and take no space.
pub(super) fn sampled_blob(logprobs: &[f32]) -> Vec<u8> {
    if logprobs.iter().all(|logprob| logprob.to_bits() == 0) { Vec::new() } else { f32_blob(logprobs) }
}

/// Decodes them, for an answer of `tokens` tokens.
pub(super) fn sampled_from_blob(blob: &[u8], tokens: usize) -> Result<Vec<f32>, String> {
    if blob.is_empty() { Ok(vec![0.0; tokens]) } else { f32_from_blob(blob) }
}

fn words(blob: &[u8]) -> Result<&[[u8; 4]], String> {
    match blob.as_chunks() {
        (words, []) => Ok(words),
        _ => Err(format!("{} bytes are not a whole number of 4-byte entries", blob.len())),
    }
}

pub(super) fn sources_blob(sources: &[Source]) -> Vec<u8> {
    sources.iter().map(|source| *source as u8).collect()
}

pub(super) fn sources_from_blob(blob: &[u8]) -> Result<Vec<Source>, String> {
    blob.iter()
        .map(|byte| {
            SOURCES.get(usize::from(*byte)).copied().ok_or_else(|| format!("no source has number {byte}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_core::{Ending, StopReason};

    #[test]
    fn every_source_stands_at_the_index_of_its_number() {
        for (number, source) in SOURCES.iter().enumerate() {
            assert_eq!(*source as usize, number);
        }
        // A new source fails to compile here: add it to SOURCES.
        match Source::Policy {
            Source::Scaffold | Source::System | Source::User | Source::Tool | Source::History => {}
            Source::Demonstration | Source::Hint | Source::Teacher | Source::Patch => {}
            Source::Policy | Source::Latent => {}
        }
    }

    #[test]
    fn names_are_read_back_and_unknown_ones_refused() {
        assert_eq!(name(&StopReason::EndToken).unwrap(), "end_token");
        assert_eq!(name(&StopReason::StopString).unwrap(), "stop_string");
        assert_eq!(from_name("environment_error"), Ok(Ending::EnvironmentError));
        assert!(from_name::<Ending>("exploded").unwrap_err().contains("exploded"));
        assert!(name(&1).is_err());
    }

    #[test]
    fn blobs_are_little_endian_and_refuse_what_is_cut() {
        assert_eq!(u32_blob(&[1, 0x0203_0405]), [1, 0, 0, 0, 5, 4, 3, 2]);
        assert_eq!(u32_from_blob(&[1, 0, 0, 0]), Ok(vec![1]));
        assert!(u32_from_blob(&[1, 0, 0]).is_err());
        assert_eq!(f32_from_blob(&f32_blob(&[-0.5, f32::MIN_POSITIVE])), Ok(vec![-0.5, f32::MIN_POSITIVE]));
        assert!(sources_from_blob(&[10, 11]).is_err());
        for (logprobs, bytes) in [(vec![0.0; 3], 0), (vec![0.0, -0.0], 8), (vec![-0.5], 4), (vec![], 0)] {
            let blob = sampled_blob(&logprobs);
            assert_eq!(blob.len(), bytes);
            let back = sampled_from_blob(&blob, logprobs.len()).unwrap();
            assert_eq!(f32_blob(&back), f32_blob(&logprobs));
        }
    }
}

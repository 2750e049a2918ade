//! Server-sent events.

/// Gathers the bytes of a stream and cuts it into events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Bytes of lines that are not over.
    bytes: Vec<u8>,
    /// Number of them that hold no end of a line.
    searched: usize,
    /// The data of the event so far.
    data: Option<String>,
}

impl Events {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Number of bytes that wait for the end of their event.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.len() + self.data.as_ref().map_or(0, String::len)
    }

    /// The data of the next event that is complete. Comments, and fields other than `data`, are skipped.
    ///
    /// # Errors
    /// If a line is not UTF-8.
    pub(crate) fn next(&mut self) -> Result<Option<String>, String> {
        while let Some(end) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=self.searched + end).collect();
            self.searched = 0;
            let line = str::from_utf8(&line).map_err(|_| "it is not UTF-8".to_owned())?;
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if let Some(data) = self.data.take() {
                    return Ok(Some(data));
                }
            } else if let Some(piece) = line.strip_prefix("data:") {
                let data = self.data.get_or_insert_default();
                if !data.is_empty() {
                    data.push('\n');
                }
                *data += piece.strip_prefix(' ').unwrap_or(piece);
            }
        }
        self.searched = self.bytes.len();
        Ok(None)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_the_standard_says_wherever_the_stream_is_cut() {
        let text = ": comment\r\nevent: x\r\ndata: ä\r\ndata:b\r\n\r\n\n\ndata: {}\n\nid: 7\n\ndata: cut";
        for length in 1..=text.len() {
            let (mut events, mut found) = (Events::default(), Vec::new());
            for bytes in text.as_bytes().chunks(length) {
                events.push(bytes);
                while let Some(data) = events.next().unwrap() {
                    found.push(data);
                }
            }
            assert_eq!(found, ["ä\nb", "{}"], "in pieces of {length} bytes");
            assert!(events.waiting() > 0);
        }
        let mut events = Events::default();
        events.push(b"data: \xff\n\n");
        assert!(events.next().unwrap_err().contains("UTF-8"));
    }
}

//! Frames between clients and servers, as proxies forward them.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// A frame without its length.
pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; from.read_u32().await? as usize];
    from.read_exact(&mut frame).await?;
    Ok(frame)
}

pub async fn write(to: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    to.write_all(&[&(frame.len() as u32).to_be_bytes(), frame].concat()).await
}

/// The number at this place of a frame, such as an xid or an opcode.
pub fn number(frame: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

//! Work that outlives the client that asked for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use crate::mcp::tools::Detach;

/// A future that is dropped with its connection unless [`Detach`] says that it must be
/// finished; then it is, on its own. Spawning only then spares every other request the task.
pub(crate) struct Detachable<F: Future + Send + 'static>
where
    F::Output: Send,
{
    work: Option<Pin<Box<F>>>,
    detach: Detach,
}

impl<F: Future + Send + 'static> Detachable<F>
where
    F::Output: Send,
{
    pub(crate) fn new(work: F, detach: Detach) -> Self {
        Self { work: Some(Box::pin(work)), detach }
    }
}

impl<F: Future + Send + 'static> Future for Detachable<F>
where
    F::Output: Send,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let output = std::task::ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(output)
    }
}

impl<F: Future + Send + 'static> Drop for Detachable<F>
where
    F::Output: Send,
{
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        if self.detach.orphan()
            && let Ok(runtime) = Handle::try_current()
        {
            // Bounded: the work holds its permit of the requests in flight.
            runtime.spawn(work);
        }
    }
}

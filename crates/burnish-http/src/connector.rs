//! How a connection is made: directly, or through a proxy that the environment names.

use std::error::Error;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::server::reason;

type Failure = Box<dyn Error + Send + Sync>;

/// Connects to a server, with `CONNECT` through a proxy where there is one for it.
#[derive(Clone)]
pub(crate) struct Connector {
    direct: HttpConnector,
    proxies: Arc<Matcher>,
}

impl Connector {
    pub(crate) fn new(proxies: Matcher) -> Self {
        let mut direct = HttpConnector::new();
        direct.enforce_http(false);
        direct.set_nodelay(true);
        Connector { direct, proxies: Arc::new(proxies) }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.direct.poll_ready(context).map_err(Failure::from)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let proxy = if is_here(&to) { None } else { self.proxies.intercept(&to) };
        let Some(proxy) = proxy else {
            let connecting = self.direct.call(to);
            return Box::pin(async { connecting.await.map_err(Failure::from) });
        };
        let through = format!("through the proxy {}", proxy.uri());
        if proxy.uri().scheme_str() != Some("http") {
            let problem = format!("{through}: a proxy has to be spoken to by HTTP (http://...)");
            return Box::pin(async { Err(problem.into()) });
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.direct.clone());
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        let connecting = tunnel.call(with_port(to));
        Box::pin(
            async move { connecting.await.map_err(|error| format!("{through}: {}", reason(&error)).into()) },
        )
    }
}

/// Is it this machine? No proxy leads there.
fn is_here(to: &Uri) -> bool {
    let host = to.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A proxy is told the port; without one it would be taken to be that of HTTPS.
fn with_port(to: Uri) -> Uri {
    let port = if to.scheme_str() == Some("https") { 443 } else { 80 };
    match (to.host(), to.port()) {
        (Some(host), None) => format!("http://{host}:{port}/").parse().unwrap_or(to),
        _ => to,
    }
}

package import PushIO

extension ConnectOptions {
  /// The default options, through a proxy if there is one.
  package init(through proxy: ServiceAddress?) {
    self.init()
    self.proxy = proxy.map { proxy in
      Proxy(endpoint: Endpoint(host: proxy.host, port: proxy.port), user: proxy.user, password: proxy.password)
    }
  }
}

extension APNsHost {
  package init(_ address: ServiceAddress) {
    self.init(host: address.host, port: address.port)
  }
}

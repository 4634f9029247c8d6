import PushCore

/// An HTTP proxy for connects with CONNECT.
package struct Proxy: Hashable, Sendable {
  package let endpoint: Endpoint
  /// The value of `proxy-authorization`; nil: none is sent.
  let authorization: String?

  /// `user` and `password` unencoded.
  package init(endpoint: Endpoint, user: String? = nil, password: String? = nil) {
    self.endpoint = endpoint
    authorization = user.map { user in
      "Basic " + Base64.text(of: Array("\(user):\(password ?? "")".utf8), .standard)
    }
  }
}

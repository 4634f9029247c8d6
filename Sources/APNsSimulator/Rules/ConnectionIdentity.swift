/// What one connection has shown of its owner so far.
package struct ConnectionIdentity: Sendable {
  package var certificate: ClientCertificate?
  /// Team and key of the first valid provider token: later ones must be of the same.
  package var team: String?
  package var key: String?
  /// A valid request was seen: the stream limit rises from one.
  package var isValidated = false
  /// The token of the last request, and whether another one was seen: what most requests repeat needs no second look.
  var lastToken: String?
  package var tokenChanges = 0
  /// The tokens that this connection showed.
  var tokens = ProviderTokenHistory()

  package init(certificate: ClientCertificate? = nil) {
    self.certificate = certificate
    isValidated = certificate != nil
  }
}

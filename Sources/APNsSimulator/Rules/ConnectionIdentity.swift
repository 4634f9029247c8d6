/// What one connection has proved about its owner.
package struct ConnectionIdentity: Sendable {
  package var certificate: ClientCertificate?
  /// Team and key of the first valid provider token: later ones must match.
  package var team: String?
  package var key: String?
  /// A valid request was received: the stream limit rises from one.
  package var isValidated = false
  /// The last request's token, and whether it ever changed: most requests repeat it and need no second check.
  var lastToken: String?
  package var tokenChanges = 0
  /// The tokens that this connection showed.
  var tokens = ProviderTokenHistory()

  package init(certificate: ClientCertificate? = nil) {
    self.certificate = certificate
    isValidated = certificate != nil
  }
}

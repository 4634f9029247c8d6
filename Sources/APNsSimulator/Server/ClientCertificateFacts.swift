import PushIO

extension ClientCertificate {
  /// Reads a certificate's subject and Apple's extensions. The extensions list kinds (`app`, `voip`) beside each topic; unlike a kind, a
  /// topic contains a dot.
  init(_ facts: CertificateFacts) {
    self.init(topics: facts.appleTopics.filter { $0.contains(".") }, subjectID: facts.userID)
  }
}

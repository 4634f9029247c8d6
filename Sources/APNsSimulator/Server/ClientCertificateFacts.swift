import PushIO

extension ClientCertificate {
  /// Reads a certificate's subject and Apple's extensions.
  init(_ facts: CertificateFacts) {
    self.init(topics: facts.appleTopics, subjectID: facts.userID)
  }
}

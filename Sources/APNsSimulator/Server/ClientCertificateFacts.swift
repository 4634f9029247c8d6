import PushIO

extension ClientCertificate {
  /// What a certificate's subject and Apple's extensions say. The extensions name each topic's kinds (`app`, `voip`)
  /// beside it; a topic differs from a kind by its dot.
  init(_ facts: CertificateFacts) {
    self.init(topics: facts.appleTopics.filter { $0.contains(".") }, subjectID: facts.userID)
  }
}

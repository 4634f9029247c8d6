/// What a connection's client certificate allows: the topics in its extensions, or its subject's UID.
package struct ClientCertificate: Hashable, Sendable {
  /// From extension 1.2.840.113635.100.6.3.6 (or .4); empty if the certificate has neither.
  package var topics: [String]
  /// The subject's UID: the one topic of a certificate without extensions.
  package var subjectID: String?

  package init(topics: [String], subjectID: String?) {
    self.topics = topics
    self.subjectID = subjectID
  }

  package func allows(_ topic: String) -> Bool {
    topics.isEmpty ? subjectID == topic : topics.contains(topic)
  }

  /// Replaces a missing `apns-topic`: the only topic of the certificate.
  package var soleTopic: String? {
    if topics.isEmpty { return subjectID }
    return topics.count == 1 ? topics[0] : nil
  }
}

/// Where RabbitMQ's management API is: `http://user:password@host:port`, or `https://…`.
package struct ManagementAddress: Hashable, Sendable {
  package let service: ServiceAddress
  package let usesTLS: Bool

  /// nil if the text is not such a URL.
  package init?(_ text: String) {
    if let service = ServiceAddress(text, scheme: "http", defaultPort: 15_672) {
      self.service = service
      usesTLS = false
    } else if let service = ServiceAddress(text, scheme: "https", defaultPort: 15_671) {
      self.service = service
      usesTLS = true
    } else {
      return nil
    }
  }
}

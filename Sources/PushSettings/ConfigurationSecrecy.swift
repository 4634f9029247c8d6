/// Hides passwords in descriptions, so that logs, errors, dumps and crash reports never show them.
extension Configuration: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package var description: String { "the configuration of \(file ?? "defaults and environment")" }
  package var debugDescription: String { description }
  package var customMirror: Mirror {
    Mirror(self, children: effective.map { (label: $0.path, value: $0.value) }, displayStyle: .struct)
  }
}

extension Configuration.RabbitMQ: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package var description: String { urls.map(ServiceAddress.redacted).joined(separator: ", ") }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: ["urls": description, "prefix": prefix]) }
}

extension Configuration.Redis: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package var description: String { ServiceAddress.redacted(url) }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: ["url": description, "prefix": prefix]) }
}

extension ServiceAddress: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package var description: String { (user.map { "\($0):***@" } ?? "") + "\(host):\(port)" }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: ["address": description]) }
}

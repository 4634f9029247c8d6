import Foundation

/// The memory that this process may use: the machine's, or less in a container.
package enum MemoryLimit {
  package static var bytes: Int {
    bytes(machine: ProcessInfo.processInfo.physicalMemory) { try? String(contentsOfFile: $0, encoding: .utf8) }
  }

  /// - Parameter read: the text of a file; nil: there is none.
  package static func bytes(machine: UInt64, read: (String) -> String?) -> Int {
    // Of both versions of control groups. A process of a container sees its own group as the outermost one.
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"].compactMap { file in
      read(file).flatMap { UInt64($0.trimmingCharacters(in: .whitespacesAndNewlines)) }
    }
    return Int(clamping: limits.filter { $0 > 0 }.reduce(machine, min))
  }
}

extension Configuration {
  /// Throws where the tables of all lanes need more memory than this process may use: it would be killed before its first job.
  package func checkTables(memoryBytes: Int = MemoryLimit.bytes) throws(ConfigurationError) {
    let cores = ProcessInfo.processInfo.activeProcessorCount
    let bytes = (lanes == 0 ? cores : lanes) * rabbitmq.prefetch * Configuration.tableBytesOfDelivery
    guard bytes > memoryBytes else { return }
    let text = """
      \(rabbitmq.prefetch) with \(lanes == 0 ? "a lane for each of \(cores) cores" : "lanes \(lanes)") takes \(bytes >> 20) MiB for tables \
      alone, of the \(memoryBytes >> 20) MiB that this process may use; lower it or lanes
      """
    throw ConfigurationError(problems: [ConfigurationError.Problem(origin: "", path: "rabbitmq.prefetch", text: text)])
  }
}

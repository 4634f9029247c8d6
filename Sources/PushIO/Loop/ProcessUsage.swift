import Glibc

/// What a process has used so far, as the kernel counts it: for measurements.
package struct ProcessUsage: Sendable {
  /// User and system time, microseconds.
  package var cpuMicroseconds: Int64
  /// Peak of resident memory, bytes.
  package var residentPeakBytes: Int64

  /// This process, all threads.
  package static var current: ProcessUsage { read(RUSAGE_SELF) }
  /// Child processes that have ended and were waited for.
  package static var endedChildren: ProcessUsage { read(RUSAGE_CHILDREN) }

  /// Resident memory, bytes; nil if the kernel does not report it.
  package static var residentBytes: Int64? { residentBytes(of: "self") }

  /// Memory of another process.
  package static func residentBytes(of process: String) -> Int64? { pages(of: process).map { bytes($0.resident) } }

  /// Resident memory of this process without pages of files, such as code that runs for the first time; bytes. nil if the kernel does not
  /// report it.
  package static var anonymousBytes: Int64? { pages(of: "self").map { bytes($0.resident - $0.shared) } }

  private static func bytes(_ pages: Int64) -> Int64 { pages * Int64(sysconf(Int32(_SC_PAGESIZE))) }

  /// `shared`: pages of files and of shared memory, which are resident too.
  private static func pages(of process: String) -> (resident: Int64, shared: Int64)? {
    guard let file = unsafe fopen("/proc/\(process)/statm", "r") else { return nil }
    defer { unsafe fclose(file) }
    var line = [CChar](repeating: 0, count: 128)
    guard unsafe fgets(&line, 128, file) != nil else { return nil }
    let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let words = text.split(separator: " ")
    guard words.count > 2, let resident = Int64(words[1]), let shared = Int64(words[2]) else { return nil }
    return (resident, shared)
  }

  /// CPU time of a running process, microseconds; nil if there is no such process.
  package static func cpuMicroseconds(of process: Int32) -> Int64? {
    guard let file = unsafe fopen("/proc/\(process)/stat", "r") else { return nil }
    defer { unsafe fclose(file) }
    var line = [CChar](repeating: 0, count: 1024)
    guard unsafe fgets(&line, 1024, file) != nil else { return nil }
    let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    // The name, in parentheses, may contain spaces. The 12th and 13th fields after it are user and system time.
    guard let end = text.lastIndex(of: ")") else { return nil }
    let words = text[end...].split(separator: " ")
    guard words.count > 13, let user = Int64(words[12]), let system = Int64(words[13]) else { return nil }
    return (user + system) * 1_000_000 / Int64(sysconf(Int32(_SC_CLK_TCK)))
  }

  private static func read(_ who: __rusage_who) -> ProcessUsage {
    var usage = rusage()
    unsafe getrusage(__rusage_who_t(who.rawValue), &usage)
    func microseconds(_ time: timeval) -> Int64 { Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_usec) }
    return ProcessUsage(
      cpuMicroseconds: microseconds(usage.ru_utime) + microseconds(usage.ru_stime),
      residentPeakBytes: Int64(usage.ru_maxrss) * 1024)
  }
}

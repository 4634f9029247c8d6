import APNsSimulator
import Foundation
import Glibc
import PushIO

/// Keeps other simulators from replacing the files of a folder while this one runs. The system releases it when the process ends.
struct FolderLock {
  private let folder: FileHandle

  /// Makes and locks these folders; throws if a running simulator has one of them.
  static func locks(of paths: [String]) throws -> [FolderLock] {
    var seen: Set<String> = []
    return try paths.compactMap { path in
      try SimulatorFile.makeFolder(path)
      let real = URL(filePath: path).resolvingSymlinksInPath().path
      return seen.insert(real).inserted ? try FolderLock(path) : nil
    }
  }

  private init(_ path: String) throws {
    guard let folder = FileHandle(forReadingAtPath: path) else {
      throw SimulatorError("cannot read the folder \(path)")
    }
    guard flock(folder.fileDescriptor, LOCK_EX | LOCK_NB) == 0 else {
      throw SimulatorError(
        errno == EWOULDBLOCK
          ? "another apns-simulator uses the folder \(path): end it, or give this one another --folder and --write-credential"
          : "cannot lock the folder \(path): \(systemErrorText(errno))")
    }
    self.folder = folder
  }

  func release() { try? folder.close() }
}

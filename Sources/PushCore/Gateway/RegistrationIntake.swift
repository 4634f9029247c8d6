/// Turns gateway requests into registrations, the messages that apps' servers publish.
package enum RegistrationIntake {
  /// Members that the path and the key determine. The body must not have them.
  private static let reserved = KeyTable(["version", "kind", "at", "app", "environment", "device"])

  /// - Parameters:
  ///   - body: a registration's JSON object without those members.
  ///   - at: Unix milliseconds.
  package static func device(
    _ id: String, body: [UInt8], in scope: AppScope, at: Int64
  ) throws(Problem) -> [UInt8] {
    // Before anything of it is read.
    guard body.count <= DeviceLimits.registrationBytesMaximum else {
      throw Problem(Problem.Fault(RegistrationParser.oversized(body.count)))
    }
    let members: JSONMembers
    do throws(JSONError) {
      members = try JSONMembers(body.span, reserved)
    } catch {
      throw Problem(Problem.Fault(JobError(error, in: body.span)))
    }
    if let name = members.firstFound {
      throw Problem(Problem.Fault(pointer: "/\(name)", rule: "is set from the path and the key: leave it out"))
    }
    var head = head("device", scope, at)
    head.append(text: ",\"device\":")
    head.append(jsonString: id)
    return try checked(members.adding(head, to: body), at)
  }

  /// - Parameter at: Unix milliseconds.
  package static func forget(user: String, in scope: AppScope, at: Int64) throws(Problem) -> [UInt8] {
    var bytes = [ASCII.openBrace] + head("forget", scope, at)
    bytes.append(text: ",\"user\":")
    bytes.append(jsonString: user)
    bytes.append(ASCII.closeBrace)
    return try checked(bytes, at)
  }

  private static func head(_ kind: String, _ scope: AppScope, _ at: Int64) -> [UInt8] {
    Array(
      """
      "version":1,"kind":"\(kind)","at":\(at),"app":"\(scope.app)","environment":"\(scope.environment.name)"
      """.utf8)
  }

  private static func checked(_ bytes: [UInt8], _ now: Int64) throws(Problem) -> [UInt8] {
    do throws(JobError) {
      _ = try RegistrationParser.parse(bytes, now: now)
      return bytes
    } catch {
      throw Problem(Problem.Fault(error))
    }
  }
}

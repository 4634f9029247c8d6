/// Reads the body of a request that stores a segment: `{"filter": F}`, where F is JSON or text.
package enum SegmentIntake {
  private static let keys = KeyTable(["filter"])

  package static func filter(_ body: [UInt8]) throws(Problem) -> SegmentFilter {
    let members: JSONMembers
    do throws(JSONError) {
      members = try JSONMembers(body.span, keys)
    } catch {
      throw Problem(Problem.Fault(JobError(error, in: body.span)))
    }
    if let other = members.other {
      throw Problem(
        Problem.Fault(
          pointer: "/\(JobError.describe(body.span, key: other))", rule: "is not known: send only filter"))
    }
    guard members.count == 1, let member = members["filter"] else {
      throw Problem(Problem.Fault(pointer: "/filter", rule: "must be there once"))
    }
    do throws(SegmentFilterError) {
      return try SegmentFilterParser.parse(member.text.map { Array($0.utf8) } ?? Array(body[member.value.range]))
    } catch {
      switch error.place {
      case .pointer(let pointer): throw Problem(Problem.Fault(pointer: "/filter\(pointer)", rule: error.rule))
      case .byte(let offset):
        throw Problem(Problem.Fault(pointer: "/filter", rule: "\(error.rule) (at its byte \(offset))"))
      }
    }
  }
}

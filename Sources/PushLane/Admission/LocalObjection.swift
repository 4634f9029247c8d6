import PushCore

/// What a lane that decided without Redis knows against sending a job. Redis may have the job's answer, which goes before: all copies of a
/// job have one end.
enum LocalObjection {
  case superseded
  case dead(unregisteredAt: Int64)

  /// nil: it is about another copy of the job, and Redis is not asked.
  init?(_ recalled: Admission) {
    switch recalled {
    case .superseded, .repeated(.superseded): self = .superseded
    case .dead(let unregisteredAt), .repeated(.dead(let unregisteredAt)): self = .dead(unregisteredAt: unregisteredAt)
    case .proceed, .duplicate, .limited, .behind, .claimed, .repeated: return nil
    }
  }

  /// - Parameter admission: the decision without it.
  func judge(_ admission: Admission) -> Admission {
    switch admission {
    case .duplicate, .claimed, .dead, .superseded, .repeated(.dead), .repeated(.superseded): admission
    case .proceed, .limited, .behind, .repeated: recalled
    }
  }

  /// Other lanes may have answers too that Redis missed.
  private var recalled: Admission {
    switch self {
    case .superseded: .superseded.asRepeated
    case .dead(let unregisteredAt): .dead(unregisteredAt: unregisteredAt).asRepeated
    }
  }
}

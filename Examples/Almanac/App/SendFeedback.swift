import AlmanacModel
import Foundation
public import Sanguine

/// Sends feedback, until the server has it; nothing of it is cached.
///
/// The outbox keeps it over restarts and without a network.
public struct SendFeedback: RemoteMutation {
    public static let name = "feedback.send"
    let feedback: Feedback
    public var lane: String { "feedback" }

    public init(on function: String, isHelpful: Bool, comment: String = "") {
        feedback = Feedback(
            on: function,
            isHelpful: isHelpful,
            comment: comment,
            id: UUID().uuidString
        )
    }

    public func effects(on view: inout MutationEffects) {}

    public func send(_ request: MutationContext) async throws {
        try await request.post("/v1/functions/\(DeliverFeedback.name)", ["input": feedback])
    }
}

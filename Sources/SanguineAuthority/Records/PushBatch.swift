import Foundation
import SanguineModel

/// A push that was checked and read, so that the storage need only run it.
struct PushBatch: Sendable {
    /// One operation, ready to run.
    struct Operation: Sendable {
        let id: Identifier
        /// The idempotency key.
        let key: String
        /// Operations of one lane are decided in their order.
        let lane: String
        /// Of record mutation and arguments; the device, lane and sequence number do not matter.
        let fingerprint: [UInt8]
        /// What to run, or why that cannot be made out.
        let mutator: Result<any RecordMutation, Refusal>
    }

    /// In the order in which they are decided.
    let operations: [Operation]
    /// The ids in the order of the request.
    let ids: [Identifier]

    /// Checks a request.
    ///
    /// - Parameters:
    ///   - request: What a device sends.
    ///   - schema: The record mutations that there are.
    ///   - overLimit: The operations whose structure is too large, by their indexes: each is
    ///     refused for itself. Default: none.
    ///   - judge: Refuses operations before their record mutations are asked. Default: none.
    /// - Throws: `invalid_content` for what no operation can be blamed for alone: then none is
    ///   decided.
    init(
        _ request: PushRequest,
        _ schema: RecordSchema,
        overLimit: Set<Int> = [],
        judge: Authority.PushJudge? = nil
    ) throws(Problem) {
        try Self.check(request)
        ids = request.operations.map(\.id)
        let inOrder = request.operations.enumerated().sorted {
            ($0.element.sequence, $0.offset) < ($1.element.sequence, $1.offset)
        }
        operations = inOrder.map { index, operation in
            let refusal =
                overLimit.contains(index)
                ? Refusal(.invalidContent, WireBody.structure) : judge?(operation)
            return Operation(operation, schema, refusal)
        }
    }

    private static func check(_ request: PushRequest) throws(Problem) {
        let device = WireLimits.deviceIdCharacters
        guard request.device.isPlainText(of: device) else {
            throw Problem(
                .invalidContent,
                "Set 'device' to \(device.lowerBound) to \(device.upperBound) printable characters."
            )
        }
        guard request.operations.count <= WireLimits.pushedOperations else {
            throw .tooManyOperations
        }
        guard Set(request.operations.map(\.id)).count == request.operations.count else {
            throw Problem(.invalidContent, "Give each operation an 'id' of its own.")
        }
        var last: [String: Int64] = [:]
        for operation in request.operations {
            guard operation.lane.isPlainText(of: WireLimits.laneCharacters) else {
                throw .badLane
            }
            guard operation.sequence > last[operation.lane] ?? 0 else {
                throw Problem(
                    .invalidContent,
                    "Set 'sequence' to positive numbers that rise within each lane."
                )
            }
            last[operation.lane] = operation.sequence
        }
    }
}

extension PushBatch.Operation {
    init(_ pushed: PushedOperation, _ schema: RecordSchema, _ refusal: Refusal?) {
        id = pushed.id
        key = pushed.id.description
        lane = pushed.lane
        let arguments = AnswerEncoder.encode(pushed.arguments)
        let text = String(decoding: arguments, as: UTF8.self)
        fingerprint = Fingerprint("push", pushed.mutator, text).bytes
        mutator =
            refusal.map { .failure($0) } ?? Self.mutator(pushed, schema)
    }

    private static func mutator(
        _ pushed: PushedOperation,
        _ schema: RecordSchema
    ) -> Result<any RecordMutation, Refusal> {
        guard let type = schema.mutation(pushed.mutator) else {
            return .failure(
                Refusal(
                    .mutatorUnknown,
                    "Deploy a server that declares the mutator, and send the operation again."
                )
            )
        }
        do {
            return .success(try StoredForm.arguments.decode(type, from: pushed.arguments))
        } catch {
            let fault = error.memberFault
            return .failure(
                Refusal(
                    .invalidContent,
                    """
                    Set 'arguments' to the members that '\(type.name)' takes: \(fault). \
                    Update the app, or declare a default or a migration on the server.
                    """
                )
            )
        }
    }
}

extension Problem {
    static var tooManyOperations: Problem {
        Problem(
            .invalidContent,
            "Push at most \(WireLimits.pushedOperations) operations at a time."
        )
    }
}

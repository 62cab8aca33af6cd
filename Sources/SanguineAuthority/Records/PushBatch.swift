import Foundation
import SanguineModel

/// A push that is checked and decoded, so that only its operations remain to run.
struct PushBatch: Sendable {
    /// One operation, ready to run.
    struct Operation: Sendable {
        let id: Identifier
        /// The idempotency key.
        let key: String
        /// The lane; operations of one lane are decided in their order.
        let lane: String
        /// Covers the record mutation and its arguments, not the device, lane or sequence number.
        let fingerprint: [UInt8]
        /// The mutation to run, or the refusal if it could not be decoded.
        let mutation: Result<any RecordMutation, Refusal>
    }

    /// The operations in the order in which they are decided.
    let operations: [Operation]
    /// The ids in the order of the request.
    let ids: [Identifier]

    /// Checks a request.
    ///
    /// - Parameters:
    ///   - request: The request of the device.
    ///   - schema: The declared record mutations.
    ///   - overLimit: The indexes of operations whose structure is too large; each is refused
    ///     individually. Default: none.
    ///   - judge: Refuses operations before their record mutations run. Default: none.
    /// - Throws: `invalid_content` for an error of the request as a whole; then no operation is
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
            throw Problem(.invalidContent, "Give each operation a unique 'id'.")
        }
        var last: [String: Int64] = [:]
        for operation in request.operations {
            guard operation.lane.isPlainText(of: WireLimits.laneCharacters) else {
                throw .badLane
            }
            guard operation.sequence > last[operation.lane] ?? 0 else {
                throw Problem(
                    .invalidContent,
                    "Set 'sequence' to positive numbers that increase within each lane."
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
        let arguments = ResponseEncoder.encode(pushed.arguments)
        let text = String(decoding: arguments, as: UTF8.self)
        fingerprint = Fingerprint("push", pushed.mutator, text).bytes
        mutation =
            refusal.map { .failure($0) } ?? Self.mutation(pushed, schema)
    }

    private static func mutation(
        _ pushed: PushedOperation,
        _ schema: RecordSchema
    ) -> Result<any RecordMutation, Refusal> {
        guard let type = schema.mutation(pushed.mutator) else {
            return .failure(
                Refusal(
                    .mutatorUnknown,
                    "Deploy a server that declares the mutation, then send the operation again."
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
                    Set 'arguments' to the members that '\(type.name)' expects: \(fault). \
                    Update the app, or declare a default or a migration on the server.
                    """
                )
            )
        }
    }
}

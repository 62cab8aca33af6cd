package import SanguineModel
package import SanguineTesting

/// The real authority and the model of its contract, which receive the same requests.
///
/// Devices receive the real authority's answers. Feed numbers may differ, because the real feed
/// contains more than records; the outcomes of operations and the changes of records, in order, may
/// not.
package struct TwinAuthority: SimulatedAuthority {
    /// A difference between the two answers.
    package struct Difference: Error, CustomStringConvertible {
        /// The number of earlier requests.
        let requests: Int
        package let description: String
    }

    /// The result of an operation, as a device can observe it.
    private struct Outcome: Equatable {
        let id: Identifier
        let status: PushResult.Status
        let code: ProblemCode?

        init(_ result: PushResult) {
            (id, status, code) = (result.id, result.status, result.problem?.code)
        }
    }

    /// A change, as a device can observe it.
    private struct Change: Equatable {
        let key: RecordKey
        let value: JSONValue?
        let endsOperation: Bool
    }

    private var real: RealAuthority
    private var model: ModelAuthority
    private var requests = 0

    /// Creates both, with the same schema unless the model gets another.
    package init(schema: RecordSchema, ofModel other: RecordSchema? = nil) {
        real = RealAuthority(schema: schema)
        model = ModelAuthority(schema: other ?? schema)
    }

    /// The real authority's epoch, since devices receive its answers.
    package var epoch: Epoch? { real.epoch }

    package mutating func account(_ number: Int) async throws -> Identifier {
        real.account(number)
    }

    package mutating func push(
        _ request: PushRequest,
        account: Identifier
    ) async throws -> PushAnswer {
        requests += 1
        let answer = try await real.push(request, account: account)
        let other = try model.push(request, account: account)
        try compare(answer.results.map(Outcome.init), other.results.map(Outcome.init), "a push")
        try await compare(changes(in: real, of: account), changes(in: model, of: account), "a feed")
        return answer
    }

    package mutating func pull(
        account: Identifier,
        since: Int64,
        limit: Int,
        horizon: Int64,
        epoch: Epoch?,
        operations: [Identifier]
    ) async throws -> PullAnswer {
        requests += 1
        let answer = try await real.pull(
            account: account,
            since: since,
            limit: limit,
            horizon: horizon,
            epoch: epoch,
            operations: operations
        )
        let other = try model.pull(
            account: account,
            since: 0,
            limit: 1,
            horizon: 0,
            epoch: nil,
            operations: operations
        )
        try compare(
            (answer.operations ?? []).map(Outcome.init),
            (other.operations ?? []).map(Outcome.init),
            "a question about operations"
        )
        return answer
    }

    package mutating func setUnknown(_ names: Set<String>) {
        real.setUnknown(names)
        model.setUnknown(names)
    }

    package func copy() -> (real: InMemoryAuthority.Copy, model: ModelAuthority.Copy) {
        (real.copy(), model.copy())
    }

    package mutating func restore(
        _ copy: (real: InMemoryAuthority.Copy, model: ModelAuthority.Copy)
    ) {
        requests += 1
        real.restore(copy.real)
        model.restore(copy.model)
    }

    package mutating func sweep() async throws {
        requests += 1
        await real.sweep()
        model.sweep()
    }

    package func records(of account: Identifier) async throws -> [RecordKey: RecordValue] {
        let records = try await real.records(of: account)
        try compare(records, model.records(of: account), "a look at all records")
        return records
    }

    /// Returns all record changes in an account's feed, in order, without deletions: the authority
    /// may omit those for a new reader, which has nothing to delete.
    private func changes(
        in authority: some SimulatedAuthority,
        of account: Identifier
    ) async throws -> [Change] {
        var authority = authority
        let answer = try await authority.pull(
            account: account,
            since: 0,
            limit: WireLimits.largestPull,
            horizon: 0,
            epoch: nil,
            operations: []
        )
        let records = answer.changes.filter { !$0.deleted && !$0.collection.hasPrefix("$") }
        return records.map { change in
            Change(
                key: RecordKey(change.collection, change.id),
                value: change.value,
                endsOperation: (change.through ?? change.seq) == change.seq
            )
        }
    }

    private func compare<Answer: Equatable>(
        _ answer: Answer,
        _ other: Answer,
        _ question: String
    ) throws {
        guard answer != other else { return }
        throw Difference(
            requests: requests,
            description: "asked by \(question), the authority has \(answer) and its model \(other)"
        )
    }
}

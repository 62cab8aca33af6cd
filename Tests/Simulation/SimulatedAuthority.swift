package import SanguineModel

/// The requirements of the simulation on an authority.
package protocol SimulatedAuthority {
    /// All data of the authority at one moment.
    associatedtype Copy

    /// The epoch of its numbers.
    var epoch: Epoch? { get }
    /// Returns the account with that number.
    mutating func account(_ number: Int) async throws -> Identifier
    /// Applies or refuses operations permanently.
    mutating func push(
        _ request: PushRequest,
        account: Identifier
    ) async throws -> PushAnswer
    /// Returns a part of an account's feed, for a reader with that horizon and epoch.
    mutating func pull(
        account: Identifier,
        since: Int64,
        limit: Int,
        horizon: Int64,
        epoch: Epoch?,
        operations: [Identifier]
    ) async throws -> PullAnswer
    /// Forgets all current tombstones.
    mutating func sweep() async throws
    /// Returns all current records of an account.
    func records(of account: Identifier) async throws -> [RecordKey: RecordValue]
    /// Sets the names of mutations that the authority does not know.
    mutating func setUnknown(_ names: Set<String>)
    /// Returns a copy of all data.
    func copy() -> Copy
    /// Replaces all data by an older copy, under a new epoch.
    mutating func restore(_ copy: Copy)
}

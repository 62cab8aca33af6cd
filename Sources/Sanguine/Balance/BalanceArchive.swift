import Foundation
import SanguineModel

/// The stored form of the balance's state: everything except the candidate, which the next fetch
/// replaces.
///
/// It is written before a call is first sent, so that a call's hold survives a restart or a crash
/// during the call.
struct BalanceArchive: Codable, Sendable {
    /// Increase it when the meaning of a member changes: archives of other versions are dropped.
    static let version = 2

    private let version: Int
    let account: Identifier?
    let base: RecordedBalance?
    let pending: [PendingCharge]
    let history: [RecordedBalance]
    let costs: LearnedCosts

    init(_ state: BalanceState) {
        version = Self.version
        account = state.account
        base = state.base.map { RecordedBalance(balance: $0.balance, receivedAt: $0.receivedAt) }
        pending = state.calls
        history = state.history
        costs = state.costs
    }

    /// Reads an archive, or returns `nil` if this version cannot read it.
    init?(_ data: Data) {
        guard let archive = try? JSONDecoder().decode(Self.self, from: data),
            archive.isReadable
        else { return nil }
        self = archive
    }

    /// Whether this version wrote the archive.
    var isReadable: Bool { version == Self.version }

    /// Returns the archive as JSON.
    func encoded() throws -> Data { try JSONEncoder().encode(self) }
}

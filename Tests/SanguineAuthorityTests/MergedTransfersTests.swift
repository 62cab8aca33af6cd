import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineAuthority

/// The ledger of an account with merged guests, and what reading it costs.
@Suite("Transfers of several accounts", .bounded)
struct MergedTransfersTests {
    /// Counts the transfers that are read.
    private final class CountingStorage: StorageDecorator {
        let inner = MemoryStorage()
        private let count = Mutex(0)

        func transfers(
            of account: Identifier,
            before number: Int64?,
            limit: Int
        ) async throws(StorageError) -> [NumberedTransfer] {
            let found = try await inner.transfers(of: account, before: number, limit: limit)
            count.withLock { $0 += found.count }
            return found
        }

        func takeCount() -> Int { count.withLock { swap(&$0) } }

        private func swap(_ count: inout Int) -> Int {
            defer { count = 0 }
            return count
        }

        /// Appends a transfer to the ledger.
        func append(_ account: Identifier, at moment: Timestamp) async throws {
            let transfer = Transfer(
                id: Identifier(at: moment),
                account: account,
                seq: 1,
                kind: .grant,
                amount: 1,
                availableAfter: 1,
                heldAfter: 0,
                reason: "a reason",
                at: moment
            )
            let command = Command(keys: []) { _ in Decision((), changes: [.append(transfer)]) }
            try await inner.perform(command).get()
        }
    }

    private func moment(_ second: Int) -> Timestamp { ManualClock.start + .seconds(second) }

    private func owners(_ count: Int) -> [Identifier] {
        (0..<count).map { _ in Identifier(at: ManualClock.start) }
    }

    @Test(arguments: [UInt64](1...20))
    func `pages of several accounts are those of the sorted list`(seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        let storage = CountingStorage()
        let owners = owners(Int.random(in: 1...9, using: &random))
        for second in 0..<Int.random(in: 0...200, using: &random) {
            let owner = owners[Int.random(in: owners.indices, using: &random)]
            try await storage.append(owner, at: moment(second))
        }
        var all: [NumberedTransfer] = []
        for owner in owners {
            all += try await storage.inner.transfers(of: owner, before: nil, limit: .max)
        }
        all.sort { $0.number > $1.number }

        let limit = Int.random(in: 1...60, using: &random)
        var pages: [NumberedTransfer] = []
        while true {
            let last = pages.last?.number
            let page = try await storage.transfers(ofAll: owners, before: last, limit: limit)
            #expect(page.count <= limit)
            pages += page
            guard page.count == limit else { break }
        }
        #expect(pages == all, "seed \(seed)")
    }

    @Test func `a page of a hundred guests reads little more than the page`() async throws {
        let storage = CountingStorage()
        let owners = owners(101)
        for second in 0..<20_200 {
            try await storage.append(owners[second % 101], at: moment(second))
        }
        let page = try await storage.transfers(ofAll: owners, before: nil, limit: 100)
        #expect(page.count == 100)
        #expect(storage.takeCount() <= 2 * 100 + 101 * MergedTransfers.leastPart)
    }

    @Test func `a summary of an old day does not read the days after it`() async throws {
        let storage = CountingStorage()
        let clock = ManualClock()
        let authority = Authority(storage: storage, keys: SigningKeys(), clock: clock)
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let guest = GuestRequest(deviceId: "device-0123456789", deviceSecret: secret)
        let account = try await authority.guest(guest).signedIn.account.id
        let day = CalendarDay(containing: clock.now(), in: .gmt)
        for number in 0..<10 { try await storage.append(account, at: moment(number)) }
        for number in 0..<20_000 {
            try await storage.append(account, at: moment(10 * 86_400 + number))
        }
        _ = storage.takeCount()

        let query = try SummaryQuery(
            WireQuery([
                (name: "by", value: "day"), (name: "from", value: "\(day)"),
                (name: "to", value: "\(day)"),
            ])
        )
        let items = try await authority.summary(of: account, query).items
        #expect(items.map(\.entries) == [11])
        #expect(storage.takeCount() <= 2 * Authority.ledgerPage + 64)
    }
}

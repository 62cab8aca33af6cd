import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@Suite("Shared pools", .bounded)
struct SharedPoolTests {
    @Test func `an account gets its share, and others get the rest`() throws {
        let pool = SharedPool(limit: 10, accountShare: 3)
        let (first, second) = (Identifier.new(), Identifier.new())
        let places = try (0..<3).map { _ in try pool.acquire(account: first) }
        #expect(throws: SharedPool.Refusal.account) { try pool.acquire(account: first) }
        let other = try pool.acquire(account: second)
        #expect(pool.count == 4)
        withExtendedLifetime((places, other)) {}
    }

    @Test func `an address gets half, regardless of its number of accounts`() throws {
        let pool = SharedPool(limit: 5)
        let places = try (0..<3).map { _ in
            try pool.acquire(account: Identifier.new(), address: "a")
        }
        #expect(throws: SharedPool.Refusal.address) { try pool.acquire(address: "a") }
        let others = try (0..<2).map { _ in try pool.acquire(address: "b") }
        #expect(throws: SharedPool.Refusal.full) { try pool.acquire(address: "b") }
        withExtendedLifetime((places, others)) {}
    }

    @Test func `a permit is returned once, whether it is given up or deallocated`() throws {
        let pool = SharedPool(limit: 1, addressShare: 1)
        var place: SharedPool.Permit? = try pool.acquire(address: "a")
        place?.release()
        place?.release()
        #expect(pool.count == 0)
        place = nil
        #expect(pool.count == 0)
        place = try pool.acquire(address: "a")
        #expect(pool.count == 1)
        place = nil
        #expect(pool.count == 0)
        #expect(throws: Never.self) { try pool.acquire(address: "a") }
        withExtendedLifetime(place) {}
    }

    @Test func `a permit that would grow past the limit is refused, and keeps its amount`() throws {
        let pool = SharedPool(limit: 10, addressShare: 10)
        let place = try pool.acquire(4, address: "a")
        try place.grow(by: 6)
        #expect(throws: SharedPool.Refusal.full) { try place.grow(by: 1) }
        #expect(pool.count == 10)
        place.release()
        #expect(pool.count == 0)
    }

    @Test func `concurrent threads never take more than the limit`() async throws {
        let pool = SharedPool(limit: 8, addressShare: 8)
        let most = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    var most = 0
                    for _ in 0..<2_000 {
                        guard let place = try? pool.acquire(2, address: "a") else { continue }
                        most = max(most, pool.count)
                        place.release()
                    }
                    return most
                }
            }
            return await group.reduce(0) { max($0, $1) }
        }
        #expect((2...8).contains(most))
        #expect(pool.count == 0)
    }
}

extension Identifier {
    fileprivate static func new() -> Identifier { Identifier(at: ManualClock.start) }
}

import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct RecordCacheTests {
    private func key(_ id: String) -> RecordKey { RecordKey("notes", .of(id)) }

    @Test func `the cache stores records and their absence`() {
        let cache = RecordCache(count: 10, bytes: 100)
        cache.set(RecordValue(["n": 1]), bytes: 7, for: key("a"))
        cache.set(nil, bytes: 0, for: key("b"))
        #expect(cache.value(key("a")) == RecordValue(["n": 1]))
        #expect(cache.value(key("b")) == .some(nil))
        #expect(cache.value(key("c")) == nil)
        cache.forget([key("a")])
        #expect(cache.value(key("a")) == nil)
    }

    @Test func `the least recently used record is evicted first`() {
        let cache = RecordCache(count: 4, bytes: .max)
        for id in ["a", "b", "c"] { cache.set(RecordValue(["id": 1]), bytes: 1, for: key(id)) }
        #expect(cache.value(key("a")) != nil)
        cache.set(RecordValue([:]), bytes: 1, for: key("d"))
        #expect(cache.value(key("b")) == nil && cache.value(key("a")) != nil)
    }

    @Test func `a record that is used again counts toward the byte limit`() {
        let cache = RecordCache(count: 1_000, bytes: 20)
        for id in ["a", "b"] { cache.set(RecordValue([:]), bytes: 6, for: key(id)) }
        #expect(cache.value(key("a")) != nil && cache.value(key("b")) != nil)
        for id in ["c", "d"] { cache.set(RecordValue([:]), bytes: 6, for: key(id)) }
        #expect(cache.value(key("a")) == nil && cache.count == 2)
    }
}

import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Which decoded images stay in memory.
@Suite("Image memory", .bounded)
struct ImageMemoryTests {
    private static func key(_ number: Int, side: Int = 256, scope: ImageScope = 0) -> ImageKey {
        ImageKey(scope: scope, resource: "\(number)", side: side)
    }

    private func memory(_ bytes: Int, _ images: Int = 100) -> ImageMemory<Int> {
        ImageMemory(limits: .init(bytes: bytes, images: images))
    }

    @Test func `the least recently used image is evicted first`() {
        var memory = memory(30)
        for number in 1...3 { memory.add(number, for: Self.key(number), cost: 10) }
        let first = memory.best(for: Self.key(1))?.image
        #expect(first == 1)
        memory.add(4, for: Self.key(4), cost: 10)
        #expect(memory.contains(Self.key(1)) && !memory.contains(Self.key(2)))
        #expect(memory.cost == 30 && memory.evicted == 1)
    }

    @Test func `the number of images is limited too`() {
        var memory = memory(1_000, 2)
        for number in 1...5 { memory.add(number, for: Self.key(number), cost: 1) }
        #expect(memory.count == 2 && memory.contains(Self.key(5)))
    }

    @Test func `a visible image stays when others are evicted`() {
        var memory = memory(30)
        memory.show(Self.key(1))
        for number in 1...9 { memory.add(number, for: Self.key(number), cost: 10) }
        #expect(memory.contains(Self.key(1)) && memory.visibleCount == 1)
    }

    @Test func `an invisible image does not evict visible ones`() {
        var memory = memory(20)
        for number in 1...2 {
            memory.show(Self.key(number))
            memory.add(number, for: Self.key(number), cost: 10)
        }
        let isKept = memory.add(3, for: Self.key(3), cost: 10)
        #expect(!isKept)
        #expect(memory.contains(Self.key(1)) && memory.contains(Self.key(2)))
    }

    @Test func `a memory warning keeps what a view shows`() {
        var memory = memory(100)
        for number in 1...4 { memory.add(number, for: Self.key(number), cost: 10) }
        memory.show(Self.key(2))
        memory.trim()
        #expect(memory.count == 1 && memory.contains(Self.key(2)) && memory.cost == 10)
        memory.hide(Self.key(2))
        memory.trim()
        #expect(memory.count == 0 && memory.cost == 0)
    }

    @Test func `two views of an image are counted`() {
        var memory = memory(100)
        memory.add(1, for: Self.key(1), cost: 10)
        memory.show(Self.key(1))
        memory.show(Self.key(1))
        memory.hide(Self.key(1))
        memory.trim()
        #expect(memory.contains(Self.key(1)))
    }

    @Test func `a larger image serves a smaller view, and a smaller one is its thumbnail`() {
        var memory = memory(1_000)
        memory.add(128, for: Self.key(1, side: 128), cost: 1)
        memory.add(1_024, for: Self.key(1, side: 1_024), cost: 1)
        let larger = memory.best(for: Self.key(1, side: 512))?.image
        #expect(larger == 1_024)
        memory.remove(Self.key(1, side: 1_024))
        let smaller = memory.best(for: Self.key(1, side: 512))?.key.side
        let unknown = memory.best(for: Self.key(2, side: 64))?.image
        #expect(smaller == 128 && unknown == nil)
    }

    @Test func `an image beyond the limit is not kept`() {
        var memory = memory(10)
        memory.add(1, for: Self.key(1), cost: 10)
        let isKept = memory.add(2, for: Self.key(2), cost: 11)
        #expect(!isKept)
        #expect(memory.contains(Self.key(1)))
    }

    @Test func `another user's images are separate, and are removed as a whole`() {
        var memory = memory(1_000)
        memory.add(1, for: Self.key(1, scope: 1), cost: 1)
        memory.add(2, for: Self.key(1, scope: 2), cost: 1)
        let unknown = memory.best(for: Self.key(1, scope: 3))?.image
        memory.removeAll(of: 1)
        let other = memory.best(for: Self.key(1, scope: 2))?.image
        #expect(unknown == nil && other == 2 && memory.count == 1)
    }

    @Test func `random events keep the limits and the least recently used order`() {
        for seed in Fuzz.seeds(1...20) {
            var random = SplitMix64(seed: seed)
            var memory = memory(60, 12)
            var used: [ImageKey] = []  // A plain list of the same images, the oldest first.
            for _ in 0..<Fuzz.events(400) {
                let key = Self.key(Int.random(in: 0..<20, using: &random))
                switch Int.random(in: 0..<6, using: &random) {
                case 0, 1: memory.add(0, for: key, cost: Int.random(in: 0...25, using: &random))
                case 2: _ = memory.best(for: key)
                case 3: memory.show(key)
                case 4: memory.hide(key)
                default: if Bool.random(using: &random) { memory.trim() }
                }
                used.removeAll { $0 == key || !memory.contains($0) }
                if memory.contains(key) { used.append(key) }
                #expect(
                    memory.cost <= 60 && memory.count <= 12 && used.count == memory.count,
                    Fuzz.replay(Self.self, seed: seed)
                )
            }
        }
    }
}

/// Which image files stay on disk.
@Suite("Image files", .bounded)
struct ImageFilesTests {
    @Test func `the least recently used file is removed first`() {
        var files = ImageFiles(limit: 30)
        for name in ["a", "b", "c"] { _ = files.add(name, bytes: 10) }
        files.use("a")
        let removed = files.add("d", bytes: 15)
        #expect(removed == ["b", "c"])
        #expect(files.bytes == 25 && files.contains("a"))
    }

    @Test func `a file beyond the limit is removed itself`() {
        var files = ImageFiles(limit: 30)
        _ = files.add("a", bytes: 10)
        let removed = files.add("b", bytes: 31)
        #expect(removed == ["b"])
        #expect(files.contains("a") && files.count == 1)
    }

    @Test func `a folder that is too large is shortened from its oldest file`() {
        let (state, removed) = ImageFiles.restored(
            [("a", 10), ("b", 10), ("c", 10)],
            limit: 25
        )
        #expect(removed == ["a"] && state.bytes == 20)
    }

    @Test func `random events never exceed the limit`() {
        for seed in Fuzz.seeds(1...20) {
            var random = SplitMix64(seed: seed)
            var files = ImageFiles(limit: 100)
            var known: [String: Int64] = [:]
            for _ in 0..<Fuzz.events(300) {
                let name = "\(Int.random(in: 0..<20, using: &random))"
                switch Int.random(in: 0..<3, using: &random) {
                case 0:
                    let size = Int64.random(in: 0...60, using: &random)
                    known[name] = size
                    for removed in files.add(name, bytes: size) { known[removed] = nil }
                case 1: files.use(name)
                default:
                    files.remove(name)
                    known[name] = nil
                }
                #expect(
                    files.bytes == known.values.reduce(0, +) && files.bytes <= 100
                        && files.count == known.count,
                    Fuzz.replay(Self.self, seed: seed)
                )
            }
        }
    }
}

import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

/// The contract of every store of the bytes of files.
@Suite("Blob store contract", .bounded(.seconds(60)))
struct BlobStoreContractTests {
    private let content = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
    private var id: BlobID { BlobID(of: content) }

    @Test(.requires(.s3Server)) func `the store in a bucket is held to the contract`() {
        #expect(BlobStoreDriver.available == BlobStoreDriver.allCases)
    }

    @Test(arguments: BlobStoreDriver.available)
    func `a stored file is read in parts to its end`(driver: BlobStoreDriver) async throws {
        try await driver.withEmptyStore { files in
            #expect(try await files.read(id, from: 0, count: 10) == nil)
            try await files.keep(content, as: id, at: .at(0))

            #expect(try await files.read(id, from: 0, count: .max) == content)
            let part = try await files.read(id, from: 70_000, count: 65_536)
            #expect(part == Array(content[70_000..<135_536]))
            let end = try await files.read(id, from: 199_990, count: 65_536)
            #expect(end == Array(content[199_990...]))
            #expect(try await files.read(id, from: 200_000, count: 1) == [])
            #expect(try await files.read(id, from: .max, count: 1) == [])
        }
    }

    @Test(arguments: BlobStoreDriver.available)
    func `an empty file is a file`(driver: BlobStoreDriver) async throws {
        try await driver.withEmptyStore { files in
            let empty = BlobID(of: [])
            try await files.keep([], as: empty, at: .at(0))
            #expect(try await files.read(empty, from: 0, count: 9) == [])
        }
    }

    @Test(arguments: BlobStoreDriver.available)
    func `files stored before a moment are listed in pages, in order of their ids`(
        driver: BlobStoreDriver
    ) async throws {
        try await driver.withEmptyStore { files in
            let old = (0..<40).map(BlobID.sample)
            for (number, id) in old.enumerated() {
                try await files.keep(Array("\(number)".utf8), as: id, at: .at(Int64(number % 10)))
            }
            try await files.keep(content, as: id, at: .at(10))

            let all = try await files.kept(before: .at(10), after: nil, limit: 100)
            #expect(all == old.sorted())
            var paged: [BlobID] = []
            while true {
                let page = try await files.kept(before: .at(10), after: paged.last, limit: 7)
                paged += page
                guard page.count == 7 else { break }
            }
            #expect(paged == all)
            #expect(try await files.kept(before: .at(5), after: nil, limit: 100).count == 20)
            #expect(try await files.kept(before: .at(9), after: nil, limit: 0) == [])
        }
    }

    @Test(arguments: BlobStoreDriver.available)
    func `a file is removed once, and not if it was stored again`(
        driver: BlobStoreDriver
    ) async throws {
        try await driver.withEmptyStore { files in
            try await files.keep(content, as: id, at: .at(0))
            try await files.keep(content, as: id, at: .at(20))
            // A clock that was set back does not make the file older.
            try await files.keep(content, as: id, at: .at(1))

            #expect(try await files.remove(id, keptBefore: .at(20)) == false)
            #expect(try await files.read(id, from: 0, count: 1) == [0])
            #expect(try await files.remove(id, keptBefore: .at(21)))
            #expect(try await files.remove(id, keptBefore: .at(21)) == false)
            #expect(try await files.read(id, from: 0, count: 1) == nil)
            try await files.keep(content, as: id, at: .at(22))
            #expect(try await files.read(id, from: 0, count: 1) == [0])
        }
    }

    @Test(arguments: BlobStoreDriver.available)
    func `concurrent stores and removals leave complete files or none`(
        driver: BlobStoreDriver
    ) async throws {
        try await driver.withEmptyStore { files in
            try await withThrowingTaskGroup { group in
                for round in 0..<40 {
                    group.addTask { [content, id] in
                        try await files.keep(content, as: id, at: .at(Int64(round)))
                    }
                    group.addTask { [id] in
                        try await files.remove(id, keptBefore: .at(Int64(round)))
                    }
                    group.addTask { [content, id] in
                        let read = try await files.read(id, from: 0, count: .max)
                        #expect(read == nil || read == content)
                    }
                }
                try await group.waitForAll()
            }
            try await files.keep(content, as: id, at: .at(40))
            #expect(try await files.read(id, from: 0, count: .max) == content)
        }
    }

    @Test(arguments: BlobStoreDriver.available)
    func `a large file is read in small pieces, in any order and at once`(
        driver: BlobStoreDriver
    ) async throws {
        try await driver.withEmptyStore { files in
            let large = (0..<(5 << 19) + 17).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 5) }
            let id = BlobID(of: large)
            try await files.keep(large, as: id, at: .at(0))

            let piece = 1 << 16
            let starts = Array(stride(from: 0, to: large.count, by: piece))
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for start in starts.reversed() {
                    group.addTask {
                        try await files.read(id, from: start, count: piece)
                            == Array(large[start...].prefix(piece))
                    }
                }
                for try await isEqual in group { #expect(isEqual) }
            }
            // Across the borders of any larger pieces in which a store reads.
            let middle = try await files.read(id, from: (1 << 20) - 7, count: 20)
            #expect(middle == Array(large[((1 << 20) - 7)...].prefix(20)))
            #expect(try await files.read(id, from: large.count, count: piece) == [])
        }
    }

    @Test(arguments: BlobStoreDriver.available)
    func `a file that was read is gone after its removal`(
        driver: BlobStoreDriver
    ) async throws {
        try await driver.withEmptyStore { files in
            try await files.keep(content, as: id, at: .at(0))
            #expect(try await files.read(id, from: 0, count: 9)?.count == 9)
            #expect(try await files.remove(id, keptBefore: .at(1)))
            #expect(try await files.read(id, from: 0, count: 9) == nil)
            #expect(try await files.read(id, from: 0, count: 0) == nil)
            #expect(try await files.kept(before: .at(9), after: nil, limit: 9) == [])
        }
    }

    @Test(arguments: BlobStoreDriver.available)
    func `a cancelled caller does not abort a write`(driver: BlobStoreDriver) async throws {
        try await driver.withEmptyStore { files in
            let (content, id) = (content, id)
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                try await files.keep(content, as: id, at: .at(0))
            }
            try await task.finished()
            #expect(try await files.read(id, from: 0, count: .max) == content)
        }
    }
}

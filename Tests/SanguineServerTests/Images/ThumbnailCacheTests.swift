import Foundation
import SanguineAuthority
import TestSupport
import Testing

@testable import SanguineServer

/// Thumbnails in a folder and in memory.
@Suite("Thumbnails: cache", .bounded)
struct ThumbnailCacheTests {
    private func key(_ number: UInt8, _ side: Int = 64) -> ThumbnailCache.Key {
        ThumbnailCache.Key(image: BlobID(of: [number]), side: side)
    }

    private func thumbnail(_ number: UInt8, bytes: Int = 100) -> Thumbnail {
        Thumbnail(bytes: [UInt8](repeating: number, count: bytes), type: "image/jpeg")
    }

    @Test func `a stored thumbnail is found after a restart`() async throws {
        try await TemporaryFolder.with { folder in
            let cache = ThumbnailCache(in: folder)
            #expect(await cache.find(key(1)) == nil)
            await cache.store(thumbnail(1), key(1))
            #expect(cache.remembered(key(1)) == thumbnail(1))
            let next = ThumbnailCache(in: folder)
            #expect(next.remembered(key(1)) == nil)
            #expect(await next.find(key(1)) == thumbnail(1))
            #expect(await next.find(key(1, 128)) == nil)
            #expect(next.bytes == (disk: 100, memory: 100))
        }
    }

    @Test func `all sizes of a removed image are removed`() async throws {
        try await TemporaryFolder.with { folder in
            let cache = ThumbnailCache(in: folder)
            for side in [64, 256] { await cache.store(thumbnail(1), key(1, side)) }
            await cache.store(thumbnail(2), key(2))
            await cache.remove(of: BlobID(of: [1]))
            #expect(await cache.find(key(1)) == nil)
            let next = ThumbnailCache(in: folder)
            #expect(await next.find(key(1, 256)) == nil)
            #expect(await next.find(key(2)) == thumbnail(2))
            #expect(cache.bytes == (disk: 100, memory: 100))
        }
    }

    @Test func `the thumbnails unused for longest are removed`() async throws {
        try await TemporaryFolder.with { folder in
            let cache = ThumbnailCache(in: folder, disk: 1_000, memory: 500)
            for number in UInt8(1)...10 {
                await cache.store(thumbnail(number), key(number))
                #expect(await cache.find(key(1)) == thumbnail(1))
                #expect(cache.bytes.memory <= 500)
            }
            await cache.store(thumbnail(11), key(11))
            #expect(cache.bytes.disk <= 900)
            #expect(await cache.find(key(1)) == thumbnail(1))
            #expect(await cache.find(key(2)) == nil)
        }
    }

    @Test func `the number of thumbnails is limited, in a folder and in memory`() async throws {
        try await TemporaryFolder.with { folder in
            for folder in [folder, nil] {
                let cache = ThumbnailCache(in: folder, count: 10)
                for number in UInt8(1)...30 {
                    await cache.store(thumbnail(number, bytes: 1), key(number))
                    #expect(cache.count <= 10 && cache.bytes.memory <= 10)
                }
                #expect(await cache.find(key(30)) == thumbnail(30, bytes: 1))
                #expect(await cache.find(key(1)) == nil)
            }
            // Files of an earlier process count, too.
            let next = ThumbnailCache(in: folder, count: 5)
            await next.store(thumbnail(31, bytes: 1), key(31))
            #expect(next.count <= 5)
            #expect(await next.find(key(31)) == thumbnail(31, bytes: 1))
        }
    }

    @Test func `an empty file counts as missing`() async throws {
        try await TemporaryFolder.with { folder in
            await ThumbnailCache(in: folder).store(thumbnail(1), key(1))
            let id = key(1).image.description
            let file = folder.appending(path: "\(id.prefix(2))/\(id).64.jpg")
            try Data().write(to: file)
            let cache = ThumbnailCache(in: folder)
            #expect(await cache.find(key(1)) == nil)
            #expect(cache.bytes.disk == 0)
        }
    }

    @Test func `a cache without a folder is bounded by memory`() async {
        let cache = ThumbnailCache(in: nil, memory: 1_000)
        for number in UInt8(1)...50 { await cache.store(thumbnail(number), key(number)) }
        #expect(cache.bytes.memory <= 1_000 && cache.bytes.disk == 0)
        #expect(await cache.find(key(50)) == thumbnail(50))
        #expect(await cache.find(key(1)) == nil)
    }
}

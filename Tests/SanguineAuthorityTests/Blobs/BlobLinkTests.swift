import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Signed URLs of files.
@Suite("Links of files", .bounded)
struct BlobLinkTests {
    private let links = BlobLinks(keys: SigningKeys())
    private let id = BlobID(of: [1])
    private let now = ManualClock.start

    private func parts(_ link: BlobLink) throws -> (expires: String, signature: String) {
        let items = try #require(URLComponents(string: link.url)?.queryItems)
        let values = Dictionary(uniqueKeysWithValues: items.map { ($0.name, $0.value ?? "") })
        return (try #require(values["expires"]), try #require(values["signature"]))
    }

    @Test func `a link is valid for an hour and at most fifteen minutes more`() throws {
        let link = links.link(to: id, at: now)
        #expect(link.url.hasPrefix("/v1/public/blobs/\(id)?"))
        let (expires, signature) = try parts(link)
        let rest = try #require(links.rest(of: id, expires: expires, signature: signature, at: now))
        #expect((3_600...4_500).contains(rest))
        let end = try #require(link.expiresAt)
        let last = Timestamp(millisecondsSince1970: end.millisecondsSince1970 - 1_000)
        #expect(links.rest(of: id, expires: expires, signature: signature, at: last) == 1)
        #expect(links.rest(of: id, expires: expires, signature: signature, at: end) == nil)
    }

    @Test func `the link stays the same for a while, so that a cache knows it`() {
        let begin = Timestamp(millisecondsSince1970: 1_764_000_000_000)
        #expect(links.link(to: id, at: begin) == links.link(to: id, at: begin + .seconds(899)))
        #expect(links.link(to: id, at: begin) != links.link(to: id, at: begin + .seconds(900)))
    }

    @Test func `a link of another file, time or server is not valid`() throws {
        let (expires, signature) = try parts(links.link(to: id, at: now))
        let later = "\(try #require(Int64(expires)) + 1)"
        let other = BlobLinks(keys: SigningKeys())
        func rest(_ id: BlobID, _ expires: String, _ signature: String) -> Int64? {
            links.rest(of: id, expires: expires, signature: signature, at: now)
        }
        #expect(rest(id, expires, signature) != nil)
        #expect(rest(BlobID(of: [2]), expires, signature) == nil)
        #expect(rest(id, later, signature) == nil)
        #expect(other.rest(of: id, expires: expires, signature: signature, at: now) == nil)
        for wrong in ["", "A", String(signature.dropLast()), signature + "A", "%00"] {
            #expect(rest(id, expires, wrong) == nil, "\(wrong)")
        }
        for wrong in ["", "-1", "+\(expires)", "0\(expires)", "9999999999999999999", "١"] {
            #expect(rest(id, wrong, signature) == nil, "\(wrong)")
        }
    }
}

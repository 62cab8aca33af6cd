import Foundation
import SanguineMedia
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Keys, sizes and rules of images.
@Suite("Image keys", .bounded)
struct ImageKeyTests {
    private static func identity(_ text: String) throws -> (text: String, isSigned: Bool) {
        SignedURLRules.standard.identity(of: try #require(URL(string: text)))
    }

    @Test func `a URL that is signed again has the same key`() throws {
        let amazon = "https://b.s3.amazonaws.com/a.jpg?v=2"
        let first = try Self.identity(amazon + "&X-Amz-Signature=1&X-Amz-Date=20260101T000000Z")
        let second = try Self.identity(amazon + "&X-Amz-Signature=2&X-Amz-Expires=900")
        #expect(first.text == amazon && second.text == amazon)
        #expect(first.isSigned && second.isSigned)
        let azure = try Self.identity("https://a.blob.core.windows.net/c/i.png?sv=1&se=2&sig=3")
        #expect(azure.text == "https://a.blob.core.windows.net/c/i.png" && azure.isSigned)
    }

    @Test func `parameters that only look like a signature stay`() throws {
        let plain = try Self.identity("https://a.test/i.png?sp=1&size=2")
        #expect(plain.text == "https://a.test/i.png?sp=1&size=2" && !plain.isSigned)
    }

    @Test func `case of the host and the fragment do not matter, the path does`() throws {
        let first = try Self.identity("HTTPS://Images.Test/A.png#top").text
        #expect(first == "https://images.test/A.png")
        #expect(try Self.identity("https://images.test/a.png").text != first)
    }

    @Test func `an app can name its own parameters`() throws {
        let rules = SignedURLRules(parameters: ["Token", "auth-*"])
        let url = try #require(URL(string: "https://a.test/i.png?token=1&auth-key=2&x=3"))
        let identity = rules.identity(of: url)
        #expect(identity.text == "https://a.test/i.png?x=3" && identity.isSigned)
    }

    @Test func `an image is scaled to its longest side and never enlarged`() throws {
        let header = try #require(ImageHeader(Data(SampleFile.png.bytes(width: 400, height: 100))))
        let sizes = [200, 1_000, 1].map { header.size(side: $0) }
        #expect(sizes.map(\.width) == [200, 400, 1] && sizes.map(\.height) == [50, 100, 1])
    }

    @Test func `sizes that differ by a pixel share an image`() {
        #expect(ImageSize(width: 299, height: 300).side == ImageSize(width: 301, height: 10).side)
        #expect(ImageSize(width: 384, height: 1).side == 384)
        #expect(ImageSize(width: 0, height: 0).side == 32)
        #expect(ImageSize(width: 100_000, height: 1).side == 4_096)
    }
}

/// How long an image of a URL is used without asking its host.
@Suite("Image freshness", .bounded)
struct ImageFreshnessTests {
    private let now = Timestamp(millisecondsSince1970: 784_111_777_000)  // 06 Nov 1994 08:49:37

    private func freshness(_ headers: [String: String]) -> ImageFreshness {
        ImageFreshness(TransportResponse(status: 200, headers: headers), at: now)
    }

    @Test func `max-age counts from the response, minus its age`() {
        let rules = freshness(["Cache-Control": "public, max-age=60", "Age": "10"])
        #expect(rules.expiry == now + .seconds(50) && rules.isStorable)
    }

    @Test func `max-age precedes Expires, and an invalid date is in the past`() {
        let date = "Sun, 06 Nov 1994 08:50:37 GMT"
        #expect(freshness(["Expires": date]).expiry == now + .seconds(60))
        #expect(
            freshness(["Expires": date, "Cache-Control": "max-age=5"]).expiry == now + .seconds(5)
        )
        #expect(freshness(["Expires": "0"]).expiry == now)
    }

    @Test func `immutable images are never checked, and no-cache ones always`() {
        #expect(freshness(["Cache-Control": "max-age=1, immutable"]).expiry == nil)
        #expect(freshness(["Cache-Control": "no-cache"]).expiry == now)
        let secret = freshness(["Cache-Control": "no-store"])
        #expect(secret.expiry == now && !secret.isStorable)
    }

    @Test func `without rules an image is fresh for a day, and at most for a year`() {
        #expect(freshness([:]).expiry == now + ImageLimits.freshness)
        let long = freshness(["Cache-Control": "max-age=99999999999"])
        #expect(long.expiry == now + ImageLimits.longestFreshness)
    }

    @Test func `the validators are those of the response`() {
        let rules = freshness(["ETag": "\"a\"", "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"])
        #expect(rules.conditions["If-None-Match"] == "\"a\"" && rules.conditions.count == 2)
    }
}

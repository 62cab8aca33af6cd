import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

/// Signatures, compared with the examples in the reference of Amazon S3, with the test suite of AWS
/// Signature Version 4, and with the results of botocore.
@Suite("S3 signatures", .bounded)
struct S3SignatureTests {
    private typealias Header = (name: String, value: String)

    private static let host = "examplebucket.s3.amazonaws.com"
    private static let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    /// The SHA-256 of the body in the reference's examples.
    private static let welcome = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"

    private func signature(at moment: String = "2013-05-24T00:00:00Z") throws -> S3Signature {
        S3Signature(
            credentials: S3Credentials(
                accessKey: Secret("AKIAIOSFODNN7EXAMPLE"),
                secretKey: Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
            ),
            region: "us-east-1",
            moment: try #require(Timestamp(moment))
        )
    }

    private func request(
        _ method: String,
        _ path: String,
        query: [(name: String, value: String)] = [],
        host: String = S3SignatureTests.host,
        hash: String = S3SignatureTests.empty,
        _ headers: [Header] = []
    ) -> S3Signature.Request {
        S3Signature.Request(
            method: method,
            path: path,
            query: query,
            headers: [
                ("Host", host), ("x-amz-content-sha256", hash),
                ("x-amz-date", "20130524T000000Z"),
            ] + headers,
            contentHash: hash
        )
    }

    @Test func `a request for a range has the documented steps and header`() throws {
        let signature = try signature()
        let range = request("GET", "/test.txt", [("Range", "bytes=0-9")])
        #expect(
            S3Signature.canonicalRequest(range) == """
                GET
                /test.txt

                host:examplebucket.s3.amazonaws.com
                range:bytes=0-9
                x-amz-content-sha256:\(Self.empty)
                x-amz-date:20130524T000000Z

                host;range;x-amz-content-sha256;x-amz-date
                \(Self.empty)
                """
        )
        #expect(
            signature.stringToSign(of: range) == """
                AWS4-HMAC-SHA256
                20130524T000000Z
                20130524/us-east-1/s3/aws4_request
                7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972
                """
        )
        #expect(
            signature.authorization(of: range) == """
                AWS4-HMAC-SHA256 \
                Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
                SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
                Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41
                """
        )
    }

    @Test func `the documented examples of other requests have their signatures`() throws {
        let signature = try signature()
        let put = request(
            "PUT",
            "/" + S3Signature.escaped("test$file.text", keepsSlashes: true),
            hash: Self.welcome,
            [
                ("Date", "Fri, 24 May 2013 00:00:00 GMT"),
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ]
        )
        let documented = [
            (put, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
            (
                request("GET", "/", query: [("lifecycle", "")]),
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
            ),
            (
                request("GET", "/", query: [("prefix", "J"), ("max-keys", "2")]),
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
            ),
        ]
        for (request, expected) in documented {
            #expect(signature.signature(of: request) == expected)
        }
    }

    @Test func `special characters, double slashes and a token are signed as by botocore`() throws {
        let signature = try signature()
        let path = S3Signature.escaped("photos/ä//ß+ =@(1)/*~.txt", keepsSlashes: true)
        #expect(path == "photos/%C3%A4//%C3%9F%2B%20%3D%40%281%29/%2A~.txt")
        let put = request(
            "PUT",
            "/\(path)",
            host: "127.0.0.1:9000",
            hash: Self.welcome,
            [
                ("x-amz-meta-sanguine-stored", "1790000000000"),
                ("x-amz-security-token", "a/token+="),
            ]
        )
        #expect(
            signature.signature(of: put)
                == "78f178e393f77cb5db9c1ca4102ad3d2d795fb3f325521c0c6dfda07ad10e923"
        )
        let list = request(
            "GET",
            "/photos",
            query: [
                ("list-type", "2"), ("max-keys", "7"), ("prefix", "ä//ß+ ="),
                ("start-after", "ä//x"), ("encoding-type", "url"),
            ],
            host: "127.0.0.1:9000"
        )
        #expect(
            signature.signature(of: list)
                == "cee1c30ad2c7169f030c6e7e86b9f5aa39a04101662e63368683ecb6ca9adf35"
        )
    }

    /// A case of AWS's test suite that also holds for S3, where paths are not normalized.
    struct Suite: Sendable, CustomTestStringConvertible {
        var name: String
        var method = "GET"
        var path = "/"
        var query: [String] = []
        var headers: [String] = []
        var signature: String

        var testDescription: String { name }
    }

    private static let unreserved =
        "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

    static let suite = [
        Suite(
            name: "get-vanilla",
            signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        ),
        Suite(
            name: "get-vanilla-query-order-key-case",
            query: ["Param2=value2", "Param1=value1"],
            signature: "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"
        ),
        Suite(
            name: "get-vanilla-query-unreserved",
            query: ["\(unreserved)=\(unreserved)"],
            signature: "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"
        ),
        Suite(
            name: "get-unreserved",
            path: "/\(unreserved)",
            signature: "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"
        ),
        Suite(
            name: "get-utf8",
            path: "/ሴ",
            signature: "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"
        ),
        Suite(
            name: "get-header-value-trim",
            headers: ["My-Header1= value1", "My-Header2= \"a   b   c\""],
            signature: "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"
        ),
        Suite(
            name: "get-header-value-order",
            headers: [
                "My-Header1=value4", "My-Header1=value1", "My-Header1=value3",
                "My-Header1=value2",
            ],
            signature: "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"
        ),
        Suite(
            name: "post-vanilla",
            method: "POST",
            signature: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        ),
    ]

    @Test(arguments: suite)
    func `a case of the test suite has its signature`(of example: Suite) throws {
        func pair(_ text: String) -> (name: String, value: String) {
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            return (parts[0], parts.count > 1 ? parts[1] : "")
        }
        var signature = S3Signature(
            credentials: S3Credentials(
                accessKey: Secret("AKIDEXAMPLE"),
                secretKey: Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
            ),
            region: "us-east-1",
            moment: try #require(Timestamp("2015-08-30T12:36:00Z"))
        )
        signature.service = "service"
        let request = S3Signature.Request(
            method: example.method,
            path: S3Signature.escaped(example.path, keepsSlashes: true),
            query: example.query.map(pair),
            headers: [
                ("Host", "example.amazonaws.com"), ("X-Amz-Date", "20150830T123600Z"),
            ] + example.headers.map(pair),
            contentHash: S3Signature.emptyHash
        )
        #expect(signature.signature(of: request) == example.signature)
    }

    @Test func `a location has the bucket in the path or in the host`() throws {
        func location(
            _ endpoint: String,
            _ addressing: S3Location.Addressing
        ) throws -> S3Location {
            try #require(
                S3Location(
                    endpoint: endpoint,
                    bucket: "photos",
                    prefix: "of/ä",
                    addressing: addressing
                )
            )
        }
        let path = try location("http://[::1]:9000/base/", .path)
        #expect(path.address(of: "of/ä/x").path == "/base/photos/of/%C3%A4/x")
        #expect(path.address.host == "[::1]:9000")
        #expect(path.address.path == "/base/photos")
        #expect(path.prefix == "of/ä/")
        // The port that the scheme implies is not part of the header, and so of the signature.
        let host = try location("https://s3.example.com:443", .host)
        #expect(host.address.origin == "https://photos.s3.example.com")
        #expect(host.address.host == "photos.s3.example.com")
        #expect(host.address(of: "of/ä/x").path == "/of/%C3%A4/x")
        #expect("\(host)" == "https://photos.s3.example.com/")
    }
}

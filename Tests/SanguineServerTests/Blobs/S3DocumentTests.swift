import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

/// The documents in XML of S3 storages.
@Suite("S3 documents", .bounded)
struct S3DocumentTests {
    private func document(_ text: String) -> S3Document? { S3Document(Array(text.utf8)) }

    @Test func `elements, namespaces, entities and comments are read`() throws {
        let found = try #require(
            document(
                """
                \u{FEFF}  \n<?xml version="1.0"?><!-- a > b -->
                <s3:Error xmlns:s3="http://x"><Code>A&amp;B&#33;&#x21;&lt;&unknown;</Code>
                <Empty/><Message kind="text"><![CDATA[<ä> & ]]>end</Message ></s3:Error>
                """
            )
        )
        #expect(found.name == "Error")
        #expect(found["Code"] == "A&B!!<&unknown;")
        #expect(found["Message"] == "<ä> & end")
        #expect(found["Empty"]?.isEmpty == true)
        #expect(found["Region"] == nil)
    }

    @Test(arguments: [
        "", "  ", "text", "<a>", "<a><b></a></b>", "<a></b>", "<a", "</a>", "<>x</>",
        "<!DOCTYPE html><html></html>", "<a><![CDATA[x</a>", "<!-- x", "<?xml", "<a/", "x<a/>",
    ])
    func `a page or a part of a document is none`(text: String) {
        #expect(document(text) == nil)
    }

    @Test func `a deep document is refused`() {
        let depth = S3Document.depth
        func nested(_ depth: Int) -> String {
            String(repeating: "<a>", count: depth) + String(repeating: "</a>", count: depth)
        }
        #expect(document(nested(depth)) != nil)
        #expect(document(nested(depth + 1)) == nil)
        #expect(document(nested(100_000)) == nil)
    }

    @Test func `a list has keys, times and its end`() throws {
        let text = """
            <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
            <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><Contents>
            <Key>%C3%A4%2F%2Fa+b%2B%25</Key><LastModified>2026-11-21T19:18:39.250Z</LastModified>
            </Contents><Contents><Key>plain</Key></Contents></ListBucketResult>
            """
        let page = try #require(S3Page(Array(text.utf8)))
        #expect(page.objects.map(\.key) == ["ä//a b+%", "plain"])
        #expect(page.objects[0].writtenAt == Timestamp("2026-11-21T19:18:39.250Z"))
        #expect(page.objects[1].writtenAt == nil)
        #expect(page.isCut)
    }

    @Test func `keys of a storage that does not escape them stay as they are`() throws {
        let text = """
            <ListBucketResult><Contents><Key>a+b%2F&amp;c</Key></Contents></ListBucketResult>
            """
        let page = try #require(S3Page(Array(text.utf8)))
        #expect(page.objects.map(\.key) == ["a+b%2F&c"])
        #expect(!page.isCut)
    }

    @Test(arguments: [
        "<Error><Code>X</Code></Error>", "<html></html>",
        "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><EncodingType>url</EncodingType>"
            + "<Contents><Key>%4</Key></Contents></ListBucketResult>",
    ])
    func `another document is no list`(text: String) {
        #expect(S3Page(Array(text.utf8)) == nil)
    }
}

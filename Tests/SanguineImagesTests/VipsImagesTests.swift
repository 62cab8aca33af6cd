import SanguineAuthority
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineImages

/// The facts, cleaning and thumbnails of real images.
@Suite("Images by libvips", .bounded(.seconds(120)))
struct VipsImagesTests {
    private let images = VipsImages(threads: 2)

    private func clean(_ file: [UInt8], as format: ImageFormat) async throws -> EncodedImage {
        try await images.clean(file, as: format, for: .anonymous)
    }

    private func failure(
        _ file: [UInt8],
        as format: ImageFormat,
        of images: VipsImages? = nil
    ) async -> ImageFailure? {
        do throws(ImageFailure) {
            _ = try await (images ?? self.images).clean(file, as: format, for: .anonymous)
            return nil
        } catch {
            return error
        }
    }

    @Test(
        .requires(.vips),
        arguments: [
            ("a.jpg", ImageFormat.jpeg), ("a.png", .png), ("a.webp", .webp), ("a.heic", .heic),
        ]
    )
    func `the facts come from the content`(name: String, format: ImageFormat) async throws {
        try await SampleImages.with { samples in
            let file = try await samples.image(name)
            let facts = try await images.facts(of: file, as: format, for: .anonymous)
            #expect((facts.width, facts.height, facts.frames) == (40, 30, 1))
            #expect(!facts.hasAlpha && facts.orientation == 1)
        }
    }

    @Test(
        .requires(.vips, .exiftool),
        arguments: [
            ("a.jpg", ImageFormat.jpeg), ("a.png", .png), ("a.webp", .webp), ("a.heic", .heic),
        ]
    )
    func `a cleaned image has no location, and no text`(
        name: String,
        format: ImageFormat
    ) async throws {
        try await SampleImages.with { samples in
            _ = try await samples.image(name)
            let file = try await samples.addPlace(name)
            #expect(file.contains(text: SampleImages.place))
            let cleaned = try await clean(file + Array(SampleImages.place.utf8), as: format)
            #expect(!cleaned.bytes.contains(text: SampleImages.place))
            let tags = try await samples.tags(cleaned)
            #expect(!tags.contains("GPS") && !tags.contains("XMP") && !tags.contains("IPTC"))
            #expect(cleaned.format == (format == .heic ? .jpeg : format))
            #expect((cleaned.facts.width, cleaned.facts.height) == (40, 30))
        }
    }

    @Test(
        .requires(.vips),
        arguments: [
            ("a.jpg", ImageFormat.jpeg), ("a.png", .png), ("a.webp", .webp), ("a.heic", .heic),
        ]
    )
    func `pixels have four components and fit into the side`(
        name: String,
        format: ImageFormat
    ) async throws {
        try await SampleImages.with { samples in
            let file = try await samples.image(name)
            for (side, size) in [(100, (40, 30)), (20, (20, 15))] {
                let pixels = try await images.pixels(
                    of: file,
                    as: format,
                    side: side,
                    for: .anonymous
                )
                #expect((pixels.width, pixels.height) == size)
                #expect(pixels.rgba.count == 4 * size.0 * size.1)
                // An opaque image.
                let opacities = stride(from: 3, to: pixels.rgba.count, by: 4)
                #expect(opacities.allSatisfy { pixels.rgba[$0] == 255 })
            }
            var failure: ImageFailure?
            do throws(ImageFailure) {
                _ = try await images.pixels(of: [1, 2], as: format, side: 20, for: .anonymous)
            } catch {
                failure = error
            }
            #expect(failure == .unreadable)
        }
    }

    /// Whether red (left to right) and green (top to bottom) are high in the upper left corner.
    private static let corners = [
        1: (false, false), 2: (true, false), 3: (true, true), 4: (false, true),
        5: (false, false), 6: (false, true), 7: (true, true), 8: (true, false),
    ]

    @Test(.requires(.vips, .exiftool), arguments: 1...8)
    func `each orientation is applied, and removed`(orientation: Int) async throws {
        try await SampleImages.with { samples in
            for (name, format) in [("a.jpg", ImageFormat.jpeg), ("a.png", .png), ("a.webp", .webp)]
            {
                _ = try await samples.image(name)
                let file = try await samples.addPlace(name, "-Orientation=\(orientation)")
                let cleaned = try await clean(file, as: format)
                let thumbnail = try await images.thumbnail(
                    of: file,
                    as: format,
                    side: 20,
                    for: .anonymous
                )
                let corner = try #require(Self.corners[orientation])
                for image in [cleaned, thumbnail] {
                    #expect(image.facts.orientation == 1)
                    #expect((image.facts.width > image.facts.height) == (orientation < 5))
                    let color = try await samples.color(image, x: 0, y: 0)
                    try #require(color.count >= 3)
                    #expect((color[0] > 128) == corner.0, "\(name)")
                    #expect((color[1] > 128) == corner.1, "\(name)")
                }
            }
        }
    }

    @Test(.requires(.vips))
    func `a truncated image is refused`() async throws {
        try await SampleImages.with { samples in
            for (name, format) in [
                ("a.jpg", ImageFormat.jpeg), ("p.jpg", .jpeg), ("a.png", .png), ("a.webp", .webp),
                ("a.heic", .heic),
            ] {
                let options = name == "p.jpg" ? "[interlace]" : ""
                let file = try await samples.image(name, options: options)
                for count in [0, 3, 20, file.count / 2, file.count * 4 / 5] {
                    let part = Array(file.prefix(count))
                    #expect(await failure(part, as: format) == .unreadable, "\(name) \(count)")
                }
            }
        }
    }

    @Test(.requires(.vips))
    func `an image of another format, SVG and PDF are refused`() async throws {
        try await SampleImages.with { samples in
            let jpeg = try await samples.image("a.jpg")
            let vector = Array(
                #"<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>"#.utf8
            )
            let gif = try await samples.image("a.gif")
            let tiff = try await samples.image("a.tif")
            for format in ImageFormat.allCases {
                for file in [vector, gif, tiff, Array("%PDF-1.7".utf8)] {
                    #expect(await failure(file, as: format) == .unreadable)
                }
                if format != .jpeg { #expect(await failure(jpeg, as: format) == .unreadable) }
            }
        }
    }

    @Test(.requires(.vips))
    func `an image coded in AV1 is not taken for HEIC`() async throws {
        try await SampleImages.with { samples in
            let file = try await samples.image("a.avif")
            #expect(await failure(file, as: .heic) == .unsupported)
        }
    }

    @Test(.requires(.vips))
    func `an image with too many pixels is refused by its header`() async throws {
        try await SampleImages.with { samples in
            try await samples.run("vips", "black", samples.path("large.png"), "7100", "7100")
            let file = try samples.bytes("large.png")
            let before = VipsImages.allocatedBytes
            guard case .tooLarge(let facts) = await failure(file, as: .png) else {
                Issue.record("It was not refused.")
                return
            }
            #expect((facts.width, facts.height) == (7_100, 7_100))
            #expect(VipsImages.allocatedBytes <= before + 8 << 20)
            do throws(ImageFailure) {
                _ = try await images.thumbnail(of: file, as: .png, side: 9, for: .anonymous)
                Issue.record("It was scaled.")
            } catch {
                #expect(error == .tooLarge(facts))
            }
        }
    }

    @Test(.requires(.vips))
    func `the frames of an animation are counted and kept, and its thumbnail is still`()
        async throws
    {
        try await SampleImages.with { samples in
            let (first, second) = (samples.path("colors.png"), samples.path("second.png"))
            try await samples.run("vips", "invert", first, second)
            let strip = samples.path("strip.png")
            try await samples.run(
                "vips",
                "arrayjoin",
                "\(first) \(second) \(first)",
                strip,
                "--across",
                "1"
            )
            let output = samples.path("moving.webp") + "[page-height=30]"
            try await samples.run("vips", "copy", strip, output)
            let file = try samples.bytes("moving.webp")
            let facts = try await images.facts(of: file, as: .webp, for: .anonymous)
            #expect((facts.width, facts.height, facts.frames) == (40, 30, 3))
            let cleaned = try await clean(file, as: .webp)
            #expect(cleaned.facts.frames == 3 && cleaned.facts.height == 30)
            let thumbnail = try await images.thumbnail(
                of: file,
                as: .webp,
                side: 16,
                for: .anonymous
            )
            #expect((thumbnail.facts.width, thumbnail.facts.height) == (16, 12))
            #expect(thumbnail.facts.frames == 1)

            var limits = DecodingLimits()
            limits.frames = 2
            let few = VipsImages(limits: limits, threads: 1)
            #expect(await failure(file, as: .webp, of: few) == .tooLarge(facts))
            limits = DecodingLimits()
            limits.pixels = 40 * 30 * 3 - 1
            let small = VipsImages(limits: limits, threads: 1)
            #expect(await failure(file, as: .webp, of: small) == .tooLarge(facts))
        }
    }

    @Test(.requires(.vips))
    func `an image for print becomes RGB, and a color profile is kept`() async throws {
        try await SampleImages.with { samples in
            for profile in ["cmyk", "p3"] {
                let name = samples.path("\(profile).jpg")
                let source = samples.path("colors.png")
                try await samples.run(
                    "vips",
                    "icc_export",
                    source,
                    name,
                    "--output-profile",
                    profile
                )
                let file = try samples.bytes("\(profile).jpg")
                let cleaned = try await clean(file, as: .jpeg)
                let tags = try await samples.tags(cleaned)
                #expect(tags.contains("ColorSpaceData") && tags.contains("RGB"), "\(profile)")
                #expect(!tags.contains("CMYK"))
                let thumbnail = try await images.thumbnail(
                    of: file,
                    as: .jpeg,
                    side: 20,
                    for: .anonymous
                )
                let color = try await samples.color(thumbnail, x: 19, y: 14)
                #expect(color.count == 3 && color[0] > 180 && color[1] > 180)
                #expect(try await !samples.tags(thumbnail).contains("ProfileDescription"))
            }
        }
    }

    @Test(.requires(.vips))
    func `a PNG keeps its 16 bits, and its thumbnail has 8`() async throws {
        try await SampleImages.with { samples in
            let source = samples.path("colors.png")
            try await samples.run("vips", "colourspace", source, samples.path("deep.png"), "rgb16")
            let file = try samples.bytes("deep.png")
            let cleaned = try await clean(file, as: .png)
            #expect(
                try await samples.tags(cleaned).contains("BitDepth                        : 16")
            )
            let thumbnail = try await images.thumbnail(
                of: file,
                as: .png,
                side: 20,
                for: .anonymous
            )
            #expect(thumbnail.format == .jpeg)
        }
    }

    @Test(.requires(.vips))
    func `an image with transparency keeps it`() async throws {
        try await SampleImages.with { samples in
            let source = samples.path("colors.png")
            for (name, format) in [("clear.png", ImageFormat.png), ("clear.heic", .heic)] {
                try await samples.run(
                    "vips",
                    "bandjoin_const",
                    source,
                    samples.path(name),
                    "100"
                )
                let file = try samples.bytes(name)
                let cleaned = try await clean(file, as: format)
                #expect(cleaned.facts.hasAlpha)
                #expect(cleaned.format == (format == .png ? .png : .webp))
                let thumbnail = try await images.thumbnail(
                    of: file,
                    as: format,
                    side: 16,
                    for: .anonymous
                )
                #expect(thumbnail.facts.hasAlpha && thumbnail.format == .webp)
            }
        }
    }

    @Test(.requires(.vips))
    func `a thumbnail fits, and is never larger than the image`() async throws {
        try await SampleImages.with { samples in
            let file = try await samples.image("a.jpg")
            for (side, width, height) in [(16, 16, 12), (32, 32, 24), (40, 40, 30), (64, 40, 30)] {
                let image = try await images.thumbnail(
                    of: file,
                    as: .jpeg,
                    side: side,
                    for: .anonymous
                )
                #expect((image.facts.width, image.facts.height) == (width, height))
            }
        }
    }

    @Test(.requires(.vips))
    func `the same bytes have the same result`() async throws {
        try await SampleImages.with { samples in
            let file = try await samples.image("a.jpg")
            let first = try await clean(file, as: .jpeg)
            #expect(try await clean(file, as: .jpeg).bytes == first.bytes)
        }
    }

    @Test(.requires(.vips))
    func `an image that takes too long is refused, and no memory is kept`() async throws {
        try await SampleImages.with { samples in
            try await samples.run("vips", "black", samples.path("large.png"), "4000", "4000")
            let file = try samples.bytes("large.png")
            var limits = DecodingLimits()
            limits.time = .zero
            let impatient = VipsImages(limits: limits, threads: 1)
            #expect(await failure(file, as: .png, of: impatient) == .timeout)
            #expect(impatient.memory.taken == 0)
        }
    }

    @Test(.requires(.vips))
    func `a cancelled task's image is not decoded`() async throws {
        try await SampleImages.with { samples in
            let file = try await samples.image("a.jpg")
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return await failure(file, as: .jpeg)
            }
            #expect(try await task.finished() == .cancelled)
        }
    }

    @Test func `the estimated memory depends on the coding`() throws {
        var facts = ImageFacts(width: 4_000, height: 3_000)
        func memory(_ format: ImageFormat, isScaled: Bool = false) -> Int {
            VipsImages.memory(of: facts, format, isScaled: isScaled) >> 20
        }
        #expect(memory(.jpeg) == 12 && memory(.png) == 12)
        #expect(memory(.heic) == 126 && memory(.webp) > memory(.webp, isScaled: true))
        facts.orientation = 6
        #expect(memory(.jpeg) == 46 && memory(.jpeg, isScaled: true) == 12)
        facts.isWhole = true
        #expect(memory(.jpeg) == 114 && memory(.png) == 137)
    }
}

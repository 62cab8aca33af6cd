import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Images for views.
@MainActor
@Suite("Image model", .bounded)
struct ImageModelTests {
    private let stage = ImageStage()
    private let size = ImageStage.size

    @Test func `an image in memory is shown when the model is created`() async throws {
        let client = try stage.client().client
        _ = try await client.images.image(ImageStage.url("a.png"), fitting: size)
        let model = client.images.model(ImageStage.url("a.png"), fitting: size)
        #expect(model.phase == .ready && model.image?.width == 800)
    }

    @Test func `a model loads when its view appears`() async throws {
        let client = try stage.client().client
        let model = client.images.model(ImageStage.url("a.png"), fitting: size)
        #expect(model.phase == .empty && stage.requests() == 0)
        model.appear()
        #expect(model.phase == .loading)
        try await eventually("the image is shown") { model.phase == .ready }
        #expect(model.image?.width == 800 && model.error == nil)
    }

    @Test func `a view that goes away ends its request, and appears again with its image`()
        async throws
    {
        let client = try stage.client().client
        stage.network.hold()
        let model = client.images.model(ImageStage.url("a.png"), fitting: size)
        model.appear()
        try await stage.network.waitForHeld(1)
        model.disappear()
        try await stage.network.waitForCancelled(1)
        #expect(model.phase == .empty)
        stage.network.release()
        model.appear()
        try await eventually("the image arrives after the scroll") { model.phase == .ready }
    }

    @Test func `a released model ends its request`() async throws {
        let client = try stage.client().client
        stage.network.hold()
        var model: ImageModel? = client.images.model(ImageStage.url("a.png"), fitting: size)
        model?.appear()
        try await stage.network.waitForHeld(1)
        model = nil
        try await stage.network.waitForCancelled(1)
        #expect(model == nil && client.images.statistics.visibleImages == 0)
    }

    @Test func `a reused cell never shows its former image`() async throws {
        let client = try stage.client().client
        stage.network.hold()
        let model = client.images.model(ImageStage.url("a.png"), fitting: size)
        model.appear()
        try await stage.network.waitForHeld(1)
        model.show(ImageStage.url("b.png"), fitting: size)
        #expect(model.image == nil)
        try await stage.network.releaseFirst { $0.url.path().contains("b.png") }
        try await eventually("the new image is shown") { model.phase == .ready }
        stage.network.release()
        #expect(model.image?.key.resource.hasSuffix("b.png") == true)
        model.show(nil)
        #expect(model.image == nil && model.phase == .empty)
    }

    @Test func `the same image at another size stays until the new one is loaded`() async throws {
        let client = try stage.client().client
        let model = client.images.model(.file(ImageStage.id(1)), fitting: size)
        model.appear()
        try await eventually("the image is shown") { model.phase == .ready }
        stage.network.hold()
        model.show(.file(ImageStage.id(1)), fitting: ImageSize(width: 2_000, height: 10))
        #expect(model.image?.width == 768 && model.phase == .thumbnail)
        stage.network.release()
        try await eventually("the larger one is shown") { model.image?.width == 2_048 }
    }

    @Test func `a failure can be retried`() async throws {
        let client = try stage.client().client
        stage.network.script(.status(404))
        let model = client.images.model(ImageStage.url("a.png"), fitting: size)
        model.appear()
        try await eventually("the request has failed") { model.phase == .failed }
        #expect(model.error != nil)
        model.retry()
        try await eventually("the image is shown") { model.phase == .ready }
        #expect(model.error == nil)
    }

    @Test func `a retry without a view waits for the next appearance`() async throws {
        let client = try stage.client().client
        stage.network.script(.status(404))
        let model = client.images.model(ImageStage.url("a.png"), fitting: size)
        model.appear()
        try await eventually("the request has failed") { model.phase == .failed }
        model.disappear()
        model.retry()
        #expect(!model.isVisible && model.phase == .empty && model.error == nil)
        #expect(client.images.statistics.visibleImages == 0)
        model.appear()
        try await eventually("the image is shown") { model.phase == .ready }
        #expect(client.images.statistics.visibleImages > 0)
    }

    @Test func `a visible image survives a memory warning`() async throws {
        let client = try stage.client().client
        let model = client.images.model(ImageStage.url("a.png"), fitting: size)
        model.appear()
        try await eventually("the image is shown") { model.phase == .ready }
        client.images.trimMemory()
        #expect(client.images.cached(ImageStage.url("a.png"), fitting: size) != nil)
        model.disappear()
        client.images.trimMemory()
        #expect(client.images.cached(ImageStage.url("a.png"), fitting: size) == nil)
        #expect(model.image?.width == 800, "The view keeps what it shows.")
    }

    @Test func `a sign-out drops the image before it returns`() async throws {
        let client = try stage.client().client
        let model = client.images.model(.file(ImageStage.id(1)), fitting: size)
        model.appear()
        try await eventually("the image is shown") { model.phase == .ready }
        stage.network.hold()
        await client.signOut(keeping: .nothing)
        #expect(model.image == nil)
        stage.network.release()
    }

    @Test func `a placeholder is shown in the first frame`() throws {
        let client = try stage.client().client
        let hash = try #require(ThumbHash(base64: "1QcSHQRnh493V4dIh4eXh1h4kJUI"))
        let model = client.images.model(
            ImageStage.url("a.png"),
            fitting: size,
            placeholder: hash
        )
        #expect(model.placeholder == hash && model.image == nil)
    }
}

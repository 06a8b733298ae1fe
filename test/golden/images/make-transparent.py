"""Transparent PNGs and what Pillow makes of them on white, as vLLM does: `python make-transparent.py` writes transparent.json."""
import base64, io, json
import numpy as np, PIL
from PIL import Image

rng = np.random.RandomState(7)
colours = Image.fromarray(rng.randint(0, 256, (7, 11, 4), dtype=np.uint8), "RGBA")
grey = Image.fromarray(rng.randint(0, 256, (7, 11, 2), dtype=np.uint8), "LA")
palette = Image.fromarray(rng.randint(0, 16, (7, 11), dtype=np.uint8), "P")
palette.putpalette(rng.randint(0, 256, 48, dtype=np.uint8).tobytes())
few = Image.fromarray(rng.randint(0, 3, (7, 11), dtype=np.uint8) * 100, "L")
two = Image.merge("RGB", [few, few, few.transpose(Image.Transpose.ROTATE_180)])
deep = Image.fromarray((rng.randint(0, 4, (7, 11)) * 20001).astype(np.uint16))

def file(image, **options):
    data = io.BytesIO(); image.save(data, "PNG", **options); return data.getvalue()

def on_white(data):
    image = Image.open(io.BytesIO(data)).convert("RGBA")
    white = Image.new("RGB", image.size, (255, 255, 255))
    white.paste(image, mask=image.split()[3])
    return white

cases = []
for what, data, picture in [
    ("colours with alpha", file(colours), None),
    ("grey with alpha", file(grey), None),
    ("a palette with alpha", file(palette, transparency=rng.randint(0, 256, 16, dtype=np.uint8).tobytes()), None),
    ("a palette of 4 bits with a clear colour", file(palette, bits=4, transparency=3), None),
    ("a clear grey", file(few, transparency=100), None),
    ("a clear colour", file(two, transparency=(100, 100, 0)), None),
    ("16 bits", file(deep), Image.fromarray((np.array(deep) >> 8).astype(np.uint8)).convert("RGB")),  # Pillow's own cuts at 255
]:
    picture = picture or on_white(data)
    cases.append({"what": what, "file": base64.b64encode(data).decode(), "pixels": base64.b64encode(np.array(picture).tobytes()).decode()})
json.dump({"made_with": f"Pillow {PIL.__version__}", "cases": cases}, open(__file__.replace("make-transparent.py", "transparent.json"), "w"), separators=(",", ":"))

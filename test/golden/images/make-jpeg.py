"""What Pillow reads from JPEGs: `python make-jpeg.py` writes jpeg.json beside itself. Needs Pillow, NumPy and cjpeg.

Colours are stored whole, at half resolution across, down, and both; in pictures of odd and tiny sizes, progressive, grey, CMYK,
and as red, green and blue. Edges of pure colours show best how colours are spread. `pixels` is deflated.
"""
import base64, io, json, subprocess, zlib
import numpy as np, PIL
from PIL import Image, ImageDraw

def cards(width, height):
    image = Image.new("RGB", (width, height), (240, 240, 240))
    draw = ImageDraw.Draw(image)
    draw.rectangle([width // 8, height // 8, width // 2, height // 2], fill=(220, 20, 20))
    draw.rectangle([width // 2, height // 2, width, height], fill=(20, 40, 220))
    draw.line([0, height, width, 0], fill=(0, 150, 0), width=2)
    return image

def pillow(image, **options):
    data = io.BytesIO(); image.save(data, "JPEG", quality=90, **options); return data.getvalue()

def cjpeg(image, *options):
    data = io.BytesIO(); image.save(data, "PPM")
    return subprocess.run(["cjpeg", "-quality", "90", *options], input=data.getvalue(), stdout=subprocess.PIPE, check=True).stdout

cases = []
def add(what, file):
    image = Image.open(io.BytesIO(file)).convert("RGB")
    cases.append({"what": what, "file": base64.b64encode(file).decode(), "size": image.size,
                  "pixels": base64.b64encode(zlib.compress(np.array(image).tobytes(), 9)).decode()})

for width, height in [(61, 45), (64, 48), (5, 3), (4, 4), (3, 7), (1, 1)]:
    for sampling in ["1x1", "2x1", "1x2", "2x2"]:
        add(f"{sampling}, {width} × {height}", cjpeg(cards(width, height), "-sample", sampling))
image = cards(61, 45)
add("4x1", cjpeg(image, "-sample", "4x1"))
add("2x2, progressive", pillow(image, subsampling=2, progressive=True))
add("grey", pillow(image.convert("L")))
add("CMYK", pillow(image.convert("CMYK")))
add("red, green and blue", pillow(image, keep_rgb=True))
json.dump({"made_with": f"Pillow {PIL.__version__}, {subprocess.run(['cjpeg', '-version'], capture_output=True, text=True).stderr.splitlines()[0]}",
           "cases": cases}, open(__file__.replace("make-jpeg.py", "jpeg.json"), "w"), separators=(",", ":"))
